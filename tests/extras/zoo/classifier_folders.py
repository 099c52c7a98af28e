"""Small audio classifiers of transformers, and what transformers itself makes of a waveform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoFeatureExtractor, AutoModelForAudioClassification

from tests.encoders import ENCODERS, OTHERS, SIZES, STABLE, STEM

FAMILIES: dict[str, dict[str, Any]] = {
    **ENCODERS,
    # A second, which extractors take as a whole number.
    "whisper": {**ENCODERS["whisper"], "max_source_positions": 50},
    "sew": OTHERS["sew"],
    "audio-spectrogram-transformer": {**SIZES, "max_length": 64},
    "wavlm": {**SIZES, **STEM, **STABLE, "num_buckets": 32, "max_bucket_distance": 40},
    "wav2vec2": {**SIZES, **STEM, **STABLE, "conv_bias": True},
}
LABELS = ("fake", "real")


def make_classifier(family: str, labels: tuple[str, ...] | None = LABELS, **values: Any) -> Any:
    """A classifier whose every weight is drawn; without `labels` one of two unnamed classes."""
    torch.manual_seed(0)
    named: dict[str, Any] = {}
    if labels is not None:
        named = {
            "id2label": dict(enumerate(labels)),
            "label2id": {label: number for number, label in enumerate(labels)},
        }
    sizes = {"classifier_proj_size": 16, **FAMILIES[family], **named, **values}
    config = AutoConfig.for_model(family, **sizes)
    model = AutoModelForAudioClassification.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name or name == "layer_weights":
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


def make_extractor(family: str, do_normalize: bool = True) -> Any:
    if family == "whisper":
        return transformers.WhisperFeatureExtractor(chunk_length=1)
    if family == "wav2vec2-bert":
        return transformers.SeamlessM4TFeatureExtractor()
    if family == "audio-spectrogram-transformer":
        return transformers.ASTFeatureExtractor(max_length=64)
    return transformers.Wav2Vec2FeatureExtractor(do_normalize=do_normalize)


def save_classifier(folder: Path, family: str, **values: Any) -> Any:
    """Write the folder of a classifier; return the classifier."""
    model = make_classifier(family, **values)
    model.save_pretrained(folder)
    make_extractor(family).save_pretrained(folder)
    return model


def logits_of(model: Any, folder: Path, waveform_T: Tensor) -> Tensor:
    """What transformers' extractor and model make of a waveform: (1, classes)."""
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    inputs = extractor(waveform_T.numpy(), sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        logits: Tensor = model(**inputs).logits
    return logits
