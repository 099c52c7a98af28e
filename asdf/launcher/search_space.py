"""Search spaces: `--search section.name=1e-6..1e-4:log`, `--search 'section.name=8|16'`.

Invariant: a value is proposed as its text in a config, so that the same point has the same run
folder, whoever proposed it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asdf.errors import UsageError
from asdf.launcher.points import SYSTEM_FOLDER
from asdf.settings.mistakes import shortened

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(:log)?")
_INTEGER = re.compile(r"[-+]?\d+")


@dataclass(frozen=True)
class Dimension:
    """A setting and its possible values.

    Attributes:
        setting: Full name of the setting.
        low: Lowest value of a range, int or float; None if there are choices.
        high: Highest value of the range.
        log: Whether values are distributed uniformly on a logarithmic scale.
        choices: Texts of the values.
    """

    setting: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[str, ...] = ()

    def ends(self) -> tuple[str, ...]:
        """Return the texts of all choices, or of both ends of the range."""
        if self.low is None:
            return self.choices
        return (repr(self.low), repr(self.high))

    def suggest(self, trial: Any) -> str:
        """Return the text of the setting's value in a trial of Optuna, which is now suggested."""
        if self.low is None:
            return str(trial.suggest_categorical(self.setting, list(self.choices)))
        suggest = trial.suggest_int if isinstance(self.low, int) else trial.suggest_float
        return repr(suggest(self.setting, self.low, self.high, log=self.log))


def read_space(searches: Sequence[str]) -> list[Dimension]:
    """Read the options of a search.

    Raises:
        UsageError: an option is malformed, or a setting is given twice.
    """
    space: dict[str, Dimension] = {}
    for text in searches:
        dimension = _read_dimension(text)
        if dimension.setting in space:
            raise UsageError(f"--search: {dimension.setting} is named twice.")
        if dimension.setting == SYSTEM_FOLDER:
            raise UsageError(f"--search {SYSTEM_FOLDER}: each point already has its own folder.")
        space[dimension.setting] = dimension
    return list(space.values())


def _read_dimension(text: str) -> Dimension:
    setting, equals, values = (part.strip() for part in text.partition("="))
    if not (setting and equals and values):
        raise UsageError(
            f"--search {shortened(text)}: write section.name=LOW..HIGH, section.name=LOW..HIGH:log "
            "or section.name=A|B|C."
        )
    match = _RANGE.fullmatch(values)
    if match is None:
        choices = tuple(choice.strip() for choice in values.split("|"))
        if len(choices) < 2 or "" in choices:
            raise UsageError(
                f"--search {shortened(text)}: write a range, LOW..HIGH, or at least two values "
                "with | between them."
            )
        return Dimension(setting, choices=choices)
    are_integers = all(_INTEGER.fullmatch(match[end]) for end in (1, 2))
    low, high = (int(end) if are_integers else float(end) for end in match.groups()[:2])
    # The pattern allows 1e999, which is infinite as a float.
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"--search {shortened(text)}: the range ends before it begins.")
    if match[3] and low <= 0:
        raise UsageError(f"--search {shortened(text)}: a range with :log must begin above 0.")
    return Dimension(setting, low, high, bool(match[3]))
