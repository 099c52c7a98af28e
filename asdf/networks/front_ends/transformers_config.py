"""The configuration of a transformers encoder, as text in `front_end.architecture`.

Invariant: a configuration is data. Only plain values of plausible sizes are taken from a text or
file; entries that would select other code, a number format, or dropout and masking in training are
left out. Importing this module does not import transformers.

Source: the configurations and state dicts of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from asdf.errors import UsageError
from asdf.text import shorten

# The key of the feature extractor's settings, if these matter.
EXTRACTOR = "feature_extractor"
# Limit for numbers that the weights do not confirm; published encoders stay below it.
MAX_NUMBER = 10**5
MAX_BANDS = 1024
MAX_LAYERS = 1000
# Limits for an extractor, by the first word found in a name; their product bounds its matrices.
_EXTRACTOR_LIMITS = {
    "mel": 2 * MAX_BANDS,
    "feature_size": 2 * MAX_BANDS,
    "chunk_length": 600,
    "fft": 2**15,
    "frame_length": 2**15,
    "": 10**6,
}
# Entries about the machine, other code, number formats, heads, and ways of computing.
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
# Entries about training, which the settings of the front end control.
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
    # Sorted, since features are cached under this text, and files have any order of entries.
    return json.dumps(_without_left_out(config), sort_keys=True)


def read_config(text: str) -> dict[str, Any]:
    """Return the encoder configuration in a value of `front_end.architecture`.

    Raises:
        UsageError: it is not a configuration, or has sizes that no encoder has.
    """
    try:
        config = json.loads(text)
        if not isinstance(config, dict):
            raise ValueError("it is not a dictionary")
        if not isinstance(config.get("model_type"), str):
            raise ValueError("it has no model_type")
        chosen = _without_left_out(config)
    # Deeply nested text exceeds Python's recursion limit.
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"front_end.architecture: {shorten(text)!r} is not a configuration of transformers "
            f"({error}). Set front_end.weights to the folder of a model, or front_end.architecture "
            'to the text of a config.json, such as \'{"model_type": "hubert"}\'.'
        ) from error
    extractor = chosen.pop(EXTRACTOR, None)
    _check_numbers(chosen)
    result = {**_without_training(chosen), **_OFF}
    if isinstance(extractor, dict):
        result[EXTRACTOR] = extractor
        for name, number in _numbers(extractor):
            limit = next(limit for word, limit in _EXTRACTOR_LIMITS.items() if word in name)
            if abs(number) > limit:
                _refuse(f"{EXTRACTOR}.{name}", number, limit)
    return result


def count_layers(config: Mapping[str, Any]) -> int:
    """Return the largest number of layers that `config` describes."""
    counts = [
        value for name, value in config.items() if name.endswith("layers") and _is_number(value)
    ]
    return int(max(counts, default=0))


def check_layer_counts(config: Mapping[str, Any]) -> None:
    """Refuse a configuration with more layers or blocks, at any depth, than any network has.

    Raises:
        UsageError: it has more than `MAX_LAYERS`; outlining them would take minutes.
    """
    for name, value in _numbers(config):
        counts_modules = any(word in name for word in ("layers", "blocks", "experts", "depth"))
        if counts_modules and value > MAX_LAYERS:
            _refuse(name, value, MAX_LAYERS)


def _without_left_out(config: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {}
    for name, value in config.items():
        # Such as _name_or_path, which may be a path on the machine of training.
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        chosen[name] = _without_left_out(value) if isinstance(value, dict) else value
    return chosen


def _without_training(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with dropout and masking turned off, also in nested configurations."""
    chosen = {}
    for name, value in config.items():
        within = _without_training(value) if isinstance(value, dict) else value
        chosen[name] = _OFF.get(name, within)
    return chosen


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the names and numbers of a configuration, including lists and nested ones."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
            continue
        for number in value if isinstance(value, list) else [value]:
            if _is_number(number):
                yield name, number


def _check_numbers(config: Mapping[str, Any]) -> None:
    for name, number in _numbers(config):
        # Vocabularies belong to heads, which are not built.
        if "vocab" in name or name.endswith(("token_id", "token_index")):
            continue
        is_band = "mel_bins" in name or name == "feature_projection_input_dim"
        limit = 2 * MAX_BANDS if is_band else MAX_NUMBER
        is_wide = name in ("rope_theta", "max_position_embeddings", "sampling_rate", "max_length")
        if abs(number) > limit and not is_wide:
            _refuse(name, number, limit)


def _refuse(name: str, value: int | float, limit: int) -> None:
    raise UsageError(
        f"front_end.architecture: {name} = {shorten(str(value))} exceeds the limit of {limit:,}."
    )
