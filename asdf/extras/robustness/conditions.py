"""Conditions of a study: degradations with grades, chosen by family, name or benchmark.

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
class Benchmark:
    """The grades of a published benchmark, as far as its authors state them.

    Attributes:
        source: Paper or thesis.
        grades: Grades by degradation; empty for a degradation without grades.
        differs: Sentences on what is omitted, or done differently.
    """

    source: str
    grades: Mapping[str, tuple[float, ...]]
    differs: tuple[str, ...]


# Docs state what the thesis's repository shows: white noise at these ratios, and the range of
# tempo. The same ratios for pink and brown noise and the steps of tempo are assumed.
_SNRS = (30, 25, 20, 15, 10, 5, 0)
_SPEEDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_FASTER = (1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)

BENCHMARKS = {
    "through-the-noise": Benchmark(
        "Yulu Fu: Through the Noise: Assessing Deepfake Detection Models Against Audio "
        "Distortions, thesis, 2025",
        {
            "white": _SNRS,
            "pink": _SNRS,
            "brown": _SNRS,
            "tempo": (*_SPEEDS, *_FASTER),
            "pitch": (*range(-10, 0), *range(1, 11)),
            "a-law": (64,),
            "mu-law": (64,),
            "g722": (64,),
            "gsm": (13,),
        },
        (
            "MP3 and Opus are left out: their bit rates are not stated with the published results.",
            "The nine rooms are recorded responses that are not part of ASDF: --rooms FOLDER with "
            "--only recorded-room measures them.",
        ),
    ),
    "audio-robustness": Benchmark(
        "Xiang Li, Pin-Yu Chen, Wenqi Wei: Measuring the Robustness of Audio Deepfake Detectors, "
        "arXiv 2503.17577, 2025; grades of the authors' code",
        {
            "white": (40, 30, 20, 10, 5),
            "noise": (40, 30, 20, 10, 5),
            "smooth": (6, 10, 14, 18, 22, 26),
            "echo": (0.1, 0.3, 0.5, 0.7, 0.9),
            "butter-high": (0.1, 0.2, 0.3, 0.4, 0.5),
            # Mildest first: the lower the limit of a low-pass filter, the less of speech is left.
            "butter-low": (0.5, 0.4, 0.3, 0.2, 0.1),
            "pitch": (-2, -1, -0.5, 0.5, 1, 2),
            "tempo": (0.7, 0.9, 1.1, 1.3, 1.5),
            "quantised": (1024, 256, 64, 16, 4),
            "opus": (31, 16, 8),
            "mp3": (40, 32, 24, 16, 8),
        },
        (
            "Opus at 1, 2 and 4 kbit/s is left out: libsndfile codes from 6 kbit/s on.",
            "EnCodec is left out, and those of the 16 corruptions that the authors' published "
            "code lacks.",
            "Background noise is one recording there; here it is those of --noise FOLDER.",
            "Time stretching keeps its length here; there it is cut or padded to the original one.",
        ),
    ),
}
"""Benchmarks by name."""


@dataclass(frozen=True)
class Chosen:
    """The conditions of a study, and the reasons for omitted ones, by name."""

    conditions: list[Condition]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose_conditions(
    material: Material,
    only: Sequence[str] = (),
    grades: Mapping[str, Sequence[float]] | None = None,
    benchmark: str = "",
) -> Chosen:
    """Choose conditions.

    Args:
        only: Families, degradations or conditions ('white_10'); empty: all.
        grades: Grades by degradation, instead of its own.
        benchmark: Name of a benchmark whose grades are used; '' for none.

    Raises:
        UsageError: a name is unknown, or nothing remains.
    """
    known = BENCHMARKS.get(benchmark)
    if benchmark and known is None:
        raise UsageError(f"there is no benchmark {benchmark}: {', '.join(BENCHMARKS)} are known.")
    own = {name: degradation.grades for name, degradation in DEGRADATIONS.items()}
    of_names = {**(known.grades if known else own), **(grades or {})}
    chosen: list[Condition] = []
    # Whoever names degradations did not ask for those that nobody can have.
    left_out = {} if benchmark or only else dict(NOT_HERE)
    names = list(only) or list(of_names)
    _check_names([*names, *(grades or {})])
    # In the order of the catalogue: the parts of a study go by number, and must not
    # depend on the order of the names.
    for degradation in DEGRADATIONS.values():
        wanted = _wanted(degradation, names, of_names)
        reason = degradation.missing(material) if wanted else ""
        if reason:
            left_out[degradation.name] = reason
        else:
            chosen += [Condition(degradation, grade) for grade in wanted]
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UsageError(f"no degradation is left to measure. {reasons}")
    return Chosen(chosen, left_out, known.differs if known else ())


def _wanted(
    degradation: Degradation,
    names: Sequence[str],
    of_names: Mapping[str, Sequence[float]],
) -> list[float]:
    """Return the chosen grades of a degradation; NaN represents one without grades."""
    if degradation.name not in of_names:
        return []
    # A repeated grade would be a second condition with the same name, and the same folder.
    grades = list(dict.fromkeys(of_names[degradation.name]))
    if degradation.name in names or degradation.family in names:
        return grades or [math.nan]
    # A given grade may differ from those in the table.
    prefix = f"{degradation.name}_"
    return [_grade(name, prefix) for name in names if _is_of(name, degradation)]


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


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name in DEGRADATIONS or name in FAMILIES:
            continue
        if name in NOT_HERE:
            raise UsageError(f"{name} is not offered: {NOT_HERE[name]}.")
        if not any(_is_of(name, row) for row in DEGRADATIONS.values()):
            near = did_you_mean(name, [*FAMILIES, *DEGRADATIONS])
            raise UsageError(f"there is no degradation {name}.{near} --list prints all.")


def parse_grades(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read grades such as 'mp3=16,8'.

    Raises:
        UsageError: a text has another form, or its degradation has no grades.
    """
    grades = {}
    for text in texts:
        name, equals, numbers = text.partition("=")
        if not equals or name not in DEGRADATIONS or not DEGRADATIONS[name].grades:
            raise UsageError(
                f"--grades {text}: name a degradation with its grades, as in mp3=16,8."
            )
        values = [_grade(f"{name}_{number}", f"{name}_") for number in numbers.split(",")]
        grades[name] = tuple(values)
    return grades
