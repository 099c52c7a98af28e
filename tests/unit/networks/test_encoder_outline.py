"""Encoders of audio that no line of ours names, held against transformers itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from asdf.errors import UsageError
from asdf.networks import TransformersFrontEnd
from asdf.settings.sections import FrontEnd
from tests.encoders import OTHERS, config_text
from tests.unit.networks.inspection import frozen_names, names_without_gradient

EXTRACTORS = {
    "speech_to_text": transformers.Speech2TextFeatureExtractor(),
    "parakeet_encoder": transformers.ParakeetFeatureExtractor(),
    "lasr_encoder": transformers.LasrFeatureExtractor(),
    "audio-spectrogram-transformer": transformers.ASTFeatureExtractor(max_length=64),
}


def front_end(model_type: str, **settings: Any) -> TransformersFrontEnd:
    torch.manual_seed(0)
    settings = {"architecture": config_text(model_type), **settings}
    return TransformersFrontEnd(FrontEnd(**settings))


def computed_by_transformers(model_type: str, model: Any, waveforms_BT: Tensor) -> list[Tensor]:
    """The hidden states of transformers, of features of its extractor."""
    if model_type in ("qwen2_audio_encoder", "voxtral_encoder", "glmasr_encoder"):
        extractor = transformers.WhisperFeatureExtractor()
        rows = list(waveforms_BT.numpy())
        inputs = dict(extractor(rows, sampling_rate=16000, padding=False, return_tensors="pt"))
    elif model_type in EXTRACTORS:
        parts = []
        for row_T in waveforms_BT.numpy():
            extractor = EXTRACTORS[model_type]
            parts.append(extractor(row_T, sampling_rate=16000, return_tensors="pt"))
        inputs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    else:
        inputs = {"input_values": waveforms_BT}
    with torch.no_grad():
        return list(model(**inputs, output_hidden_states=True).hidden_states)


@pytest.mark.slow_but("audio-spectrogram-transformer", "qwen2_audio_encoder", "voxtral_encoder")
@pytest.mark.parametrize("model_type", OTHERS)
def test_states_frames_and_rows_are_those_of_transformers(model_type, waveforms):
    model = front_end(model_type).eval()
    with torch.no_grad():
        states = model.hidden_states(waveforms)
        expected = computed_by_transformers(model_type, model.model, waveforms)
        assert len(states) == 4 and model.encoder_layers == 3 and model.dimension == 24
        for ours, theirs in list(zip(states, expected, strict=False))[:3]:
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)
        for samples in (model.window, 5279, 7999, 8000):
            features = model(waveforms[:, :samples])
            assert features.shape == (2, model.frames(samples), 24) and features.isfinite().all()
            used = model.scoring_length(samples)
            torch.testing.assert_close(model(waveforms[:, :used]), features, rtol=0, atol=1e-6)
            alone = model(waveforms[1:, :samples])
            torch.testing.assert_close(alone, features[1:], rtol=0, atol=2e-5)


@pytest.mark.slow_but(
    "audio-spectrogram-transformer-1", "qwen2_audio_encoder-1", "voxtral_encoder-1"
)
@pytest.mark.parametrize("layer", ["last", 1])
@pytest.mark.parametrize("model_type", OTHERS)
def test_exactly_what_learns_gets_a_gradient(model_type, layer, waveforms):
    masks = {"time_mask_proportion": 0.5, "time_mask_length": 2}
    model = front_end(model_type, layer=layer, **masks).train()
    model(waveforms).square().sum().backward()
    assert names_without_gradient(model) == frozen_names(model)


def test_what_may_not_be_expected_of_frames_is_logged(caplog):
    caplog.set_level("INFO", logger="asdf")
    front_end("audio-spectrogram-transformer")
    assert "every recording is padded or cut to one length" in caplog.text
    caplog.clear()
    front_end("sew")
    assert "features are the frames of the layers, 24 in 1 s" in caplog.text
    assert "of which transformers makes 49 at the end" in caplog.text
    caplog.clear()
    front_end("parakeet_encoder")
    assert "frames" not in caplog.text


def test_a_number_of_frames_that_no_formula_gives_is_measured(waveforms):
    model = front_end("parakeet_encoder").eval()
    fewest = model.min_samples(5)
    assert model(waveforms[:, :fewest]).shape[1] == 5
    assert model(waveforms[:, : fewest - 1]).shape[1] == 4
    with pytest.raises(UsageError, match="frames of 30 s, but the back end needs 999"):
        front_end("audio-spectrogram-transformer").min_samples(999)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "bert", "num_hidden_layers": 2},
            "'bert' .* is not an encoder .* Seen: BertModel",
        ),
        (
            {"model_type": "vit", "num_hidden_layers": 2},
            "'vit' .* is not an encoder .* Seen: ViTModel",
        ),
        # Its blocks have other widths each, and grow with the waveform.
        ({"model_type": "dac"}, "the type 'dac' of transformers is not an .* encoder.block gives"),
        ({"model_type": "mimi"}, "EncodecFeatureExtractor is for audio of 24,000 Hz"),
        (
            {"model_type": "hubert", "num_hidden_layers": 10_000},
            "= 10000 exceeds the limit of 1,000",
        ),
        (
            {
                "model_type": "lasr_encoder",
                "feature_extractor": {"feature_extractor_type": "os.system"},
            },
            "'os.system' is not a feature extractor of transformers",
        ),
        (
            {
                "model_type": "lasr_encoder",
                "feature_extractor": {"feature_extractor_type": "x", "n_fft": 10**9},
            },
            "feature_extractor.n_fft = 1000000000 exceeds the limit of 32,768",
        ),
    ],
)
def test_what_is_no_encoder_of_audio_is_refused(config, message):
    with pytest.raises(UsageError, match=message):
        TransformersFrontEnd(FrontEnd(architecture=json.dumps(config)))
