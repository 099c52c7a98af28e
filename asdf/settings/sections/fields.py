"""What a setting is: a field of a section's dataclass, with its documentation and its checks.

Invariant: what a value is checked against stands with its setting, as the type or in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

# 25 ms: what a frame of wav2vec 2.0 sees. Its convolutions give nothing for fewer samples.
FRAME_SAMPLES = 400

# The highest values accepted for what takes memory, processes or time as it grows. They are far
# beyond any use: what they refuse is a slip of the pen, before it costs a terabyte of memory or
# starts a million processes.
MAX_PROCESSES = 1024
MAX_UTTERANCES = 10**6
MAX_EPOCHS = 10**9
MAX_STEPS = 10**12
MAX_STAGES = 10**6
MAX_CLIP_SAMPLES = 3600 * 16000
MAX_UTTERANCE_SAMPLES = 10**12
MAX_SECONDS = 10**9
MAX_LAYER_WIDTH = 10**5
MAX_BLOCKS = 1000
MAX_HZ = 10**6
MAX_FFT = 2**14
MAX_FILTERS = 1024
MAX_BINS_PER_OCTAVE = 192

# An average that moves less than this per step would never leave its start.
MAX_DECAY = 1 - 1e-7
MAX_DB = 1000


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    check: str = "",
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return a dataclass field with its documentation and its checks.

    Args:
        at_least, above, at_most: bounds of a number, or of every number of a tuple.
        check: a further check of `value_checks.py`: 'class_path' (one or several), 'unique' (no
            value twice), 'path' (one or several; environment variables are expanded), 'not_empty'.
        names: Names for a class path: short names of the project's classes, and their class paths.

    Examples:
        >>> from dataclasses import dataclass, fields
        >>> from asdf.settings import OwnSettings, setting
        >>> @dataclass
        ... class BankSettings(OwnSettings, section_name="bank"):
        ...     filters: int = setting(60, "filters, values per frame", at_least=6, at_most=200)
        >>> BankSettings().filters
        60
        >>> [field.metadata["meaning"] for field in fields(BankSettings)]
        ['filters, values per frame']
    """
    metadata = {
        "meaning": meaning,
        "unit": unit,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "check": check,
        "names": names or {},
    }
    return field(default=default, metadata=metadata)


def proportion(default: float, meaning: str) -> Any:
    """Return the field of a probability, or of another part of a whole."""
    return setting(default, meaning, at_least=0, at_most=1)


def count(default: int, meaning: str) -> Any:
    """Return the field of how many units, heads or channels a layer has."""
    return setting(default, meaning, at_least=1, at_most=MAX_LAYER_WIDTH)


def width(default: int, meaning: str) -> Any:
    """Return the field of how many values a layer gives."""
    return setting(default, meaning, unit="values", at_least=1, at_most=MAX_LAYER_WIDTH)


def decibels(default: float, meaning: str) -> Any:
    """Return the field of a level or a ratio."""
    return setting(default, meaning, unit="dB", at_least=-MAX_DB, at_most=MAX_DB)
