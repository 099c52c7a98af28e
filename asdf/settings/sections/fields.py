"""Fields of a section's dataclass: settings with their documentation and checks.

Invariant: the checks of a value are declared with its setting, by type or in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from typing import Any, TypeVar

from asdf.ports import load, provided

Kind = TypeVar("Kind")

# 25 ms, the window of one frame of wav2vec 2.0, whose convolutions need at least as many samples.
FRAME_SAMPLES = 400

# Upper limits of settings that cost memory, processes or time. They are far beyond any use and
# catch typing mistakes before these cost a terabyte of memory or start a million processes.
MAX_PROCESSES = 1024
MAX_CLIP_SAMPLES = 3600 * 16000
MAX_LAYER_WIDTH = 10**5
MAX_BLOCKS = 1000
MAX_FFT = 2**14
MAX_FILTERS = 1024


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
        at_least, above, at_most: Bounds of a number, or of every number of a tuple.
        check: Further check of `value_checks.py`: 'class_path' (one or several), 'unique' (no value
            twice), 'path' (one or several; environment variables are expanded), 'not_empty'.
        names: Short names of the project's classes, with their class paths.

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
    """Return the field of a probability, or of another proportion."""
    return setting(default, meaning, at_least=0, at_most=1)


def count(default: int, meaning: str) -> Any:
    """Return the field of a number of units, heads or channels of a layer."""
    return setting(default, meaning, at_least=1, at_most=MAX_LAYER_WIDTH)


def width(default: int, meaning: str) -> Any:
    """Return the field of the number of values that a layer outputs."""
    return setting(default, meaning, unit="values", at_least=1, at_most=MAX_LAYER_WIDTH)


def decibels(default: float, meaning: str) -> Any:
    """Return the field of a level or a ratio in decibels."""
    return setting(default, meaning, unit="dB")


def with_extras(kind: type[Kind]) -> type[Kind]:
    """Return a dataclass of settings with the fields that extras add to it, behind its own."""
    added = [load(path) for path in provided("SETTINGS").get(kind.__name__, ())]
    if not added:
        return kind
    made = make_dataclass(kind.__name__, (), bases=(*added, kind))
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    return made
