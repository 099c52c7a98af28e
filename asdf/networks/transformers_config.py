"""The configuration of an encoder of transformers, as the text that `front_end.architecture` holds.

Invariant: a configuration is data. Of a text or a file only plain values that describe a known
kind of network are taken; what would choose other code, a number format, or how training drops and
masks is left out. Importing this module does not import transformers.

Source: the configurations and state dicts of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from asdf.errors import UsageError
from asdf.text import did_you_mean, shorten

Inputs = Literal["waveforms", "stacked_filter_bank", "log_mel"]
# No published encoder has so many of anything that its weights do not show.
MAX_NUMBER = 10**5
MAX_BANDS = 1024


@dataclass(frozen=True)
class Kind:
    """What an encoder of a model type takes, and where in it things are.

    Attributes:
        layers, width, bands: keys of the configuration: number of layers, values per frame, bands
            of its input.
        norm: the norm that ends every such encoder; '' where none does.
    """

    inputs: Inputs = "waveforms"
    layers: str = "num_hidden_layers"
    width: str = "hidden_size"
    bands: str = ""
    norm: str = ""


KINDS: dict[str, Kind] = {
    "wav2vec2": Kind(),
    "wav2vec2-conformer": Kind(norm="encoder.layer_norm"),
    "wav2vec2-bert": Kind("stacked_filter_bank", bands="feature_projection_input_dim"),
    "hubert": Kind(),
    "wavlm": Kind(),
    "data2vec-audio": Kind(),
    "unispeech": Kind(),
    "unispeech-sat": Kind(),
    "whisper": Kind("log_mel", "encoder_layers", "d_model", "num_mel_bins", "layer_norm"),
}
# Names of the machine and of other code, number formats, heads, and ways of computing.
_LEFT_OUT = (
    "architectures",
    "attn_implementation",
    "auto_map",
    "dtype",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "quantization_config",
    "torch_dtype",
    "transformers_version",
)
# Of training: the settings of the front end have them.
_OFF = {
    "add_adapter": False,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
}


def config_text(config: Mapping[str, Any]) -> str:
    """Return the value of `front_end.architecture` that describes the encoder of `config`."""
    kept = {name: value for name, value in config.items() if _is_description(name)}
    return json.dumps(kept, sort_keys=True)


def read_config(text: str) -> dict[str, Any]:
    """Return the configuration that a value of `front_end.architecture` holds, for an encoder.

    Raises:
        UsageError: it is no configuration, of an unknown kind, or of sizes that no encoder has.
    """
    try:
        config = json.loads(text)
        if not isinstance(config, dict):
            raise ValueError("it is no dictionary")
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"front_end.architecture: {shorten(text)!r} is no configuration of transformers "
            f"({error}). Set front_end.weights to the folder of a model, or front_end.architecture "
            'to the text of a config.json, such as \'{"model_type": "hubert"}\'.'
        ) from error
    kind = str(config.get("model_type"))
    if kind not in KINDS:
        raise UsageError(
            f"front_end.architecture: the model type {shorten(kind)!r} is not known."
            f"{did_you_mean(kind, KINDS)} Known are {', '.join(KINDS)}."
        )
    _check_numbers(config, KINDS[kind])
    chosen = {name: value for name, value in config.items() if _is_description(name)}
    return {**chosen, **_OFF}


def count_layers(config: Mapping[str, Any]) -> int:
    """Return the largest number of layers that `config` describes."""
    counts = [
        value for name, value in config.items() if name.endswith("layers") and _is_number(value)
    ]
    return int(max(counts, default=0))


def _is_description(name: str) -> bool:
    return not name.startswith("_") and name not in _LEFT_OUT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_numbers(config: Mapping[str, Any], kind: Kind) -> None:
    for name, value in config.items():
        numbers = value if isinstance(value, list) else [value]
        limit = 2 * MAX_BANDS if name == kind.bands else MAX_NUMBER
        if any(_is_number(number) and abs(number) > limit for number in numbers):
            # Vocabularies belong to heads, which are not built.
            if "vocab" in name or name.endswith("token_id"):
                continue
            raise UsageError(
                f"front_end.architecture: {name} = {shorten(str(value))} is beyond {limit:,}, "
                "which no encoder has."
            )
