"""Names of points, which are appended to the system folder of a config.

Invariant: points of one config with different values have different names, regardless of the
command and of the order of the settings; a name is a single path component on any system.
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
# File systems allow 255 bytes per name, part of which the config's folder uses.
_MAX_NAME = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9.+_]+")


def point_name(values: Mapping[str, Any], catalogue: Catalogue, fold: str = "") -> str:
    """Return the name of a point such as 'hidden_64-initial_learning_rate_1e-05-seed3'.

    Args:
        values: Values of the point's settings by full names, in the form of the settings.
        catalogue: Settings of the config, which show if a short name is ambiguous.
        fold: Name of the point's fold, which precedes the seed.
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
        # Room for a dash and the eight digits.
        name = f"{name[: _MAX_NAME - 9]}-{_digest(name)}"
    seed = f"seed{values[SEED]}" if SEED in values else ""
    return "-".join(filter(None, (name, fold, seed)))


def value_name(value: Any) -> str:
    """Return a value as part of a file name; a digest replaces characters that are not allowed."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and _is_plain_word(value):
        return value
    are_few = isinstance(value, tuple) and 0 < len(value) <= 4
    if are_few and all(isinstance(number, int | float) for number in value):
        # A single number without a suffix is not a tuple.
        return "_".join(map(repr, value)) + "_" * (len(value) == 1)
    text = value.rpartition("/")[2] if isinstance(value, str) else repr(value)
    readable = _UNSAFE.sub("_", text)[:_MAX_VALUE].strip("_.")
    return f"{readable}-{_digest(repr(value))}" if readable else _digest(repr(value))


def _is_plain_word(text: str) -> bool:
    """Whether a string is allowed in a name and is not parsed as a value of another type."""
    if not 0 < len(text) <= _MAX_VALUE or _UNSAFE.search(text) or text.startswith("."):
        return False
    try:
        parse_literal(text)
    except Complaint:
        return True
    return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
