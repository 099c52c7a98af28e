"""What stands next to a score file NAME.txt, in NAME.scored.json: as plain values.

Invariant: a score file with another number of trials than is stated there is refused, whatever
reads it. A file that was cut has another EER, and without a protocol nothing else could show it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.streams import descriptor_of
from asdf.text import AnyPath

_MAX_CHARACTERS = 1000
"""Characters that are read: a few values with their names."""


def entry_path(score_file: AnyPath) -> Path:
    """Return the path of what stands next to a score file."""
    return Path(score_file).with_suffix(".scored.json")


def read_entry(score_file: AnyPath) -> dict[str, Any]:
    """Return what stands next to a score file; nothing where that cannot be read."""
    # Standard input has no neighbour.
    if descriptor_of(score_file) is not None:
        return {}
    try:
        with entry_path(score_file).open(encoding="utf-8") as file:
            entry = json.loads(file.read(_MAX_CHARACTERS))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def stated_trials(entry: dict[str, Any]) -> int | None:
    """Return how many trials the score file should have; None where it is not stated."""
    trials = entry.get("trials")
    return trials if type(trials) is int and trials > 0 else None


def check_trials(score_file: AnyPath, trials: int) -> None:
    """Refuse a score file that has another number of trials than is stated next to it.

    Raises:
        AsdfError: it has.
    """
    stated = stated_trials(read_entry(score_file))
    if stated is None or stated == trials:
        return
    change = "was it cut by a copy or an editor?"
    if trials > stated:
        change = "was another file appended?"
    raise AsdfError(
        f"{score_file}: it has {trials:,} trials, and by {entry_path(score_file).name} next to it "
        f"{stated:,} were scored; {change} Copy it again or score the set again. If it was changed "
        f"on purpose, give it another name, or remove {entry_path(score_file)}."
    )
