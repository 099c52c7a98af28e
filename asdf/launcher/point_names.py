"""The names of points: what is added to the system folder of a config.

Invariant: points of one config with different values have different names, whichever command made
them and in whichever order it named the settings; and a name is one part of a path on any system.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from asdf.launcher.points import SEED
from asdf.settings.catalogue import Catalogue
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint

_MAX_VALUE = 32
# File systems take 255 bytes per name, of which the config's folder has a share.
_MAX_NAME = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9.+_]+")


def point_name(values: Mapping[str, Any], catalogue: Catalogue, fold: str = "") -> str:
    """Return the name of a point such as 'hidden_64-initial_learning_rate_1e-05-seed3'.

    Args:
        values: Values of the settings of the point by their full names, in the form of their
            settings.
        catalogue: Settings of the config, of which a short name may be that of several.
        fold: the name of the fold that the point is of, which stands before the seed.
    """
    sharing = Counter(known.name for known in catalogue.settings.values())
    parts = []
    for setting in sorted(values):
        if setting == SEED:
            continue
        short = setting.rpartition(".")[2]
        shown = short if sharing[short] == 1 else setting
        parts.append(f"{shown}_{value_name(values[setting])}")
    name = "-".join(parts)
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 9]}-{_digest(name)}"
    seed = f"seed{values[SEED]}" if SEED in values else ""
    return "-".join(filter(None, (name, fold, seed)))


def value_name(value: Any) -> str:
    """Return a value as a part of a file's name; a digest stands for what cannot be in one."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and _is_plain_word(value):
        return value
    are_few = isinstance(value, tuple) and 0 < len(value) <= 4
    if are_few and all(isinstance(number, int | float) for number in value):
        # One number behind which nothing comes is not a tuple.
        return "_".join(map(repr, value)) + "_" * (len(value) == 1)
    text = value.rpartition("/")[2] if isinstance(value, str) else repr(value)
    readable = _UNSAFE.sub("_", text)[:_MAX_VALUE].strip("_.")
    return f"{readable}-{_digest(repr(value))}" if readable else _digest(repr(value))


def _is_plain_word(text: str) -> bool:
    """Whether a string can stand in a name, and is not read as a value of another kind."""
    if not 0 < len(text) <= _MAX_VALUE or _UNSAFE.search(text) or text.startswith("."):
        return False
    try:
        parse_literal(text)
    except Complaint:
        return True
    return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
