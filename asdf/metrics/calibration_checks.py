"""Validation of the calibration in a network file, which may be damaged or from anyone.

Invariant: an entry that passes gives a `Calibration` with an increasing map, finite numbers and
limited size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from asdf.metrics.home import read_home
from asdf.metrics.llr_maps import METHODS

_COSTS = ("spoof_prior", "miss", "false_alarm")
_ALWAYS = ("scale", "offset", "threshold", *_COSTS)
_TEXTS = ("set", "trials", "date", "folds_of", "method", "where")
_ORIGIN_NUMBERS = ("bona_fide", "spoof", "speakers", "eer", "cross_validated_cllr")
_BOUNDS = ("lowest_llr", "highest_llr")
_KNOTS = ("map_scores", "map_llrs")
_OTHERS = ("replicates", "chose_network", "windows", "home")
_NAMES = {*_ALWAYS, *_TEXTS, *_ORIGIN_NUMBERS, *_BOUNDS, *_KNOTS, *_OTHERS}
# Far above the output of `calibrate`: a file that claims more is not ours.
_MAX_ROWS = 100_000


def is_sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has the form that `Calibration.content` writes."""
    return (
        set(_ALWAYS) <= set(entry) <= _NAMES
        and _has_sound_texts(entry)
        and _has_sound_numbers(entry)
        and _has_sound_knots(entry)
        and ("home" not in entry or read_home(entry["home"]) is not None)
    )


def _has_sound_texts(entry: Mapping[str, Any]) -> bool:
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            return False
    if not isinstance(entry.get("chose_network", False), bool):
        return False
    # Its content is checked by its reader, `asdf.scoring.window_threshold`.
    if not isinstance(entry.get("windows", {}), Mapping):
        return False
    return entry.get("method", METHODS[0]) in METHODS


def _has_sound_numbers(entry: Mapping[str, Any]) -> bool:
    numbers = {*_ALWAYS, *_ORIGIN_NUMBERS, *_BOUNDS}.intersection(entry)
    # The threshold at the EER has no costs, that of costs has all of them.
    if all(entry[name] is None for name in _COSTS):
        numbers -= set(_COSTS)
    if not _are_finite([entry[name] for name in numbers]) or entry["scale"] <= 0:
        return False
    if set(_BOUNDS).isdisjoint(entry):
        return True
    return set(_BOUNDS) <= set(entry) and entry["lowest_llr"] <= 0 <= entry["highest_llr"]


def _has_sound_knots(entry: Mapping[str, Any]) -> bool:
    """Whether knots, if any, are increasing, and replicates fit them."""
    if not set(_KNOTS).isdisjoint(entry):
        scores: Any = entry.get("map_scores")
        llrs: Any = entry.get("map_llrs")
        if not _are_finite(scores) or not _are_finite(llrs) or not len(scores) == len(llrs) >= 2:
            return False
        if not _rises(scores) or not _rises(llrs):
            return False
    if "replicates" not in entry:
        return True
    rows = entry["replicates"]
    if not isinstance(rows, list | tuple) or not 0 < len(rows) <= _MAX_ROWS:
        return False
    # Scale and offset of each, or an LLR for each knot.
    width = len(entry.get("map_scores", (0, 0)))
    return all(_are_finite(row) and len(row) == width for row in rows)


def _are_finite(values: Any) -> bool:
    """Whether the value is a row of finite numbers."""
    if not isinstance(values, list | tuple) or len(values) > _MAX_ROWS:
        return False
    for value in values:
        if not isinstance(value, float | int) or not math.isfinite(value):
            return False
    return True


def _rises(values: Any) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))
