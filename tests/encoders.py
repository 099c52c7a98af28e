"""Encoders of transformers small enough for tests, and what transformers itself makes of speech."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModel

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
STEM = {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
STABLE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}
TOKENS = dict.fromkeys(
    ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1
)
WHISPER = {
    "d_model": 24,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_layers": 1,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 48,
    # Half a second, which the tests' waveforms have.
    "max_source_positions": 25,
    "vocab_size": 100,
    **TOKENS,
}
ENCODERS: dict[str, dict[str, Any]] = {
    "wav2vec2": {**SIZES, **STEM, **STABLE},
    "hubert": {**SIZES, **STEM},
    "wavlm": {**SIZES, **STEM},
    "data2vec-audio": {**SIZES, **STEM},
    "unispeech": {**SIZES, **STEM, **STABLE},
    "unispeech-sat": {**SIZES, **STEM},
    "wav2vec2-conformer": {**SIZES, **STEM},
    "wav2vec2-bert": dict(SIZES),
    "whisper": WHISPER,
}
# Encoders that no line of ours names: searched in whatever network transformers makes.
SPEECH = {**WHISPER, "hidden_size": 24, "num_mel_bins": 80}
OTHERS: dict[str, dict[str, Any]] = {
    "sew": {**SIZES, **STEM, "conv_dim": [16] * 13},
    "moonshine": {
        **SIZES,
        **TOKENS,
        "vocab_size": 50,
        **dict.fromkeys(("encoder_num_hidden_layers", "decoder_num_hidden_layers"), 3),
        **dict.fromkeys(("encoder_num_attention_heads", "decoder_num_attention_heads"), 2),
        **dict.fromkeys(("encoder_num_key_value_heads", "decoder_num_key_value_heads"), 2),
    },
    "speecht5": {**SPEECH, **STEM},
    "speech_to_text": {**SPEECH, "conv_channels": 16},
    "parakeet_encoder": {**SIZES, "num_mel_bins": 80, "subsampling_conv_channels": 16},
    "lasr_encoder": dict(SIZES),
    "audio-spectrogram-transformer": {
        **SIZES,
        "max_length": 64,
        "feature_extractor": {"feature_extractor_type": "ASTFeatureExtractor", "max_length": 64},
    },
    "qwen2_audio_encoder": SPEECH,
    "voxtral_encoder": {**SPEECH, **SIZES},
    "glmasr_encoder": {**SIZES, "num_mel_bins": 80},
}


def config_text(model_type: str) -> str:
    """A value of `front_end.architecture`."""
    return json.dumps({"model_type": model_type, **{**ENCODERS, **OTHERS}[model_type]})


def make_encoder(model_type: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **ENCODERS[model_type])
    return AutoModel.from_config(config).eval()


def save_encoder(folder: Path, model_type: str) -> Any:
    model = make_encoder(model_type)
    model.save_pretrained(folder)
    return model


def hidden_states(model: Any, waveforms_BT: Tensor) -> list[Tensor]:
    """What transformers computes of waveforms, the last state being `last_hidden_state`."""
    rows = list(waveforms_BT.numpy())
    wanted = {"sampling_rate": 16000, "return_tensors": "pt"}
    kind = model.config.model_type
    with torch.no_grad():
        if kind == "whisper":
            extractor = transformers.WhisperFeatureExtractor()
            inputs = extractor(rows, padding=False, **wanted)
            outputs = model.encoder(inputs.input_features, output_hidden_states=True)
        elif kind == "wav2vec2-bert":
            inputs = transformers.SeamlessM4TFeatureExtractor()(rows, **wanted)
            outputs = model(**inputs, output_hidden_states=True)
        else:
            outputs = model(waveforms_BT, output_hidden_states=True)
    return [*outputs.hidden_states[:-1], outputs.last_hidden_state]
