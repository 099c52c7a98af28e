"""Conditions of a study: degradations with grades, chosen by family, name or condition.

Invariant: omitted degradations are listed with the reason; an unknown name is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from asdf.errors import UsageError
from asdf.extras.robustness.degradations import (
    DEGRADATIONS,
    FAMILIES,
    NOT_HERE,
    Degradation,
    Material,
)
from asdf.text import did_you_mean

CLEAN = "clean"


@dataclass(frozen=True)
class Condition:
    """A degradation with one of its grades; `grade` is NaN if it has none."""

    degradation: Degradation
    grade: float = math.nan

    @property
    def name(self) -> str:
        """Name for files: 'white_10'."""
        if math.isnan(self.grade):
            return self.degradation.name
        # :g writes 10 and 10.0 alike, as users write the name after --only.
        return f"{self.degradation.name}_{self.grade:g}"

    @property
    def label(self) -> str:
        """Name for people: 'white 10 dB SNR'."""
        if math.isnan(self.grade):
            return self.degradation.name
        return f"{self.degradation.name} {self.grade:g} {self.degradation.unit}"


@dataclass(frozen=True)
class Chosen:
    """The conditions of a study, and the reasons for omitted degradations, by name."""

    conditions: list[Condition]
    left_out: dict[str, str] = field(default_factory=dict)


def choose_conditions(
    material: Material,
    only: Sequence[str] = (),
    grades: Mapping[str, Sequence[float]] | None = None,
) -> Chosen:
    """Choose conditions.

    Args:
        only: Families, degradations or conditions ('white_10'); empty: all.
        grades: Grades by degradation, instead of its own.

    Raises:
        UsageError: a name is unknown, or nothing remains.
    """
    for name in only:
        if name in NOT_HERE:
            raise UsageError(f"{name} is not offered: {NOT_HERE[name]}.")
        known = [*FAMILIES, *DEGRADATIONS]
        if name not in known and not any(_is_of(name, row) for row in DEGRADATIONS.values()):
            near = did_you_mean(name, known)
            raise UsageError(f"there is no degradation {name}.{near} --list prints all.")
    chosen: list[Condition] = []
    # Whoever names degradations did not ask for those that nobody can have.
    left_out = {} if only else dict(NOT_HERE)
    for degradation in DEGRADATIONS.values():
        name = degradation.name
        if not only or name in only or degradation.family in only:
            # A repeated grade would be a second condition with the same name, and the same folder.
            wanted = list(dict.fromkeys((grades or {}).get(name, degradation.grades))) or [math.nan]
        else:
            # A given grade may differ from those in the table.
            wanted = [_grade(text, f"{name}_") for text in only if _is_of(text, degradation)]
        reason = degradation.missing(material) if wanted else ""
        if reason:
            left_out[name] = reason
        else:
            chosen += [Condition(degradation, grade) for grade in wanted]
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UsageError(f"no degradation is left to measure. {reasons}")
    return Chosen(chosen, left_out)


def _is_of(name: str, degradation: Degradation) -> bool:
    # Nothing may follow the name of a degradation that has no grades.
    return bool(degradation.grades) and name.startswith(f"{degradation.name}_")


def _grade(name: str, prefix: str) -> float:
    try:
        grade = float(name.removeprefix(prefix))
    except ValueError:
        grade = math.nan
    # float() also reads 'nan', which stands for a degradation without grades, and 'inf'.
    if not math.isfinite(grade):
        raise UsageError(f"{name}: a number is needed after {prefix}, as in {prefix}10.")
    return grade


def parse_grades(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read grades such as 'mp3=16,8'.

    Raises:
        UsageError: a text has another form, or its degradation has no grades.
    """
    grades = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        if not numbers or name not in DEGRADATIONS or not DEGRADATIONS[name].grades:
            raise UsageError(
                f"--grades {text}: name a degradation with its grades, as in mp3=16,8."
            )
        prefix = f"{name}_"
        grades[name] = tuple(_grade(f"{prefix}{number}", prefix) for number in numbers.split(","))
    return grades
