"""Columns of a score: what is known of a scored recording besides its score.

Invariant: files, screens and services loop over columns and name none. A column is found by its
class path: those of the core, those of extras in their table, which replace the ones with the same
key, and those that a caller names. What a journal saves of a value gives the same value back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from asdf.metrics.calibration import Calibration, CalibrationSet
from asdf.metrics.llr_maps import log10_llr
from asdf.ports import load, provided
from asdf.settings.class_path import find_class
from asdf.trials.how_scored import ScoredLength

if TYPE_CHECKING:
    from asdf.networks.extras import Extra

COLUMNS: dict[str, str] = {
    "sources": "asdf.tasks.tracing.source_scores.SourceColumn",
    "parts": "asdf.scoring.parts.PartColumn",
    "frames": "asdf.tasks.localisation.frame_scores.FrameColumn",
    "channels": "asdf.scoring.scored.ChannelColumn",
    "llr": "asdf.scoring.columns.LlrColumn",
    "speaker": "asdf.scoring.speakers.SpeakerColumn",
}
"""Class of each column of the core, by key, in the order in which they are computed."""

UNDECIDED = "undecided"
"""Verdict if the score does not tell bona fide speech from spoofs."""
CANNOT_TELL = (
    "The detector cannot tell: it gives such a score to genuine and to spoofed speech about "
    "equally often."
)


@dataclass(frozen=True)
class Request:
    """What a detector gives, from which columns tell whether they apply.

    Attributes:
        calibration: Calibration of the network; None without one.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        parts: Whether long recordings are searched for parts.
        length: Part of a recording that a trial score is of.
        window_samples: Longest window that the network hears whole.
        extras: Further outputs of the network besides scores, by key.
        source: Path or name of the network, for messages.
    """

    calibration: Calibration | None = None
    threshold: float | None = None
    parts: bool = False
    length: ScoredLength = field(default_factory=lambda: ScoredLength(1, None))
    window_samples: int = 0
    extras: Mapping[str, Extra] = field(default_factory=dict)
    source: str = "the network"


@dataclass(frozen=True)
class Heard:
    """What the network gave for a recording, from which columns compute their values.

    Attributes:
        raw: Score of the network.
        score: Reported score: the LLR of a calibrated network.
        judged: Whether the score says anything about the recording.
        rows: Further outputs of the network, by key; means over the windows.
        extras: The same outputs in the form of results.
        windows: Windows that were searched for parts (`WindowScore`).
        doubted: Whether the score is not valid for this recording: an earlier column says so or
            changes a verdict of 'bona fide', or there is too little speech.
    """

    raw: float
    score: float
    judged: bool = True
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    windows: Sequence[Any] = ()
    doubted: bool = False


@dataclass(frozen=True)
class Learning:
    """What columns learn from when a network is calibrated.

    Attributes:
        network: Path or name of the network, as given.
        scores: Score file of the set.
        folder: Folder of its recordings; None: the usual folders.
        learnt_from: Scores, with what is known of their set.
        is_fused: Whether the network is a fused system, which has no embedding.
        options: Options of the command line.
    """

    network: str
    scores: Path
    folder: Path | None
    learnt_from: CalibrationSet
    is_fused: bool
    options: Any


class ScoreColumn:
    """Something known of a scored recording besides its score: parts, likelihood ratio ...

    As it is, it is an output of the network with this key, in the form of results.

    Attributes:
        key: Key of the value in `Scored.values`, which results have as an attribute too.
        kind: Dataclass of the values, whose fields are plain values; None for other values.
        attributes: Attributes of the value that results have too, with what they are without it.
        cells: Names of its columns in CSV.
        place: Place of its columns among those of others in CSV, and of its keys in JSON.
        answer, answer_heading: Type and meaning of each entry of `entry` and of `heading`, for the
            description of a service; a mapping for the entries of an entry.
        of_trials: Whether trial scores have it, and not only those of whole recordings.
        of_speakers: Whether only scores of speakers have it.
        needs: Outputs of the network that it needs, which are computed on request.
        learns_with: Dataclass of the options of `calibrate` that `learn` reads; None: none.
        doubt: Words of a page on a recording that the score is not valid for: behind the verdict,
            and as a sentence.
        is_for_people: Whether its words are shown on a terminal alone.
    """

    key: ClassVar[str]
    kind: ClassVar[type[Any] | None] = None
    attributes: ClassVar[dict[str, Any]] = {}
    cells: ClassVar[tuple[str, ...]] = ()
    place: ClassVar[tuple[int, int]] = (50, 65)
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    answer_heading: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    of_trials: ClassVar[bool] = True
    of_speakers: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    learns_with: ClassVar[type[Any] | None] = None
    doubt: ClassVar[tuple[str, str]] = ("but not valid", "But the score is not valid for it")
    is_for_people: ClassVar[bool] = False

    @classmethod
    def wanted(cls, request: Request) -> ScoreColumn | None:
        """Return the column of a detector; None if it does not apply.

        Raises:
            AsdfError: what it was learnt from is damaged.
        """
        return cls() if cls.key in request.extras else None

    @classmethod
    def learn(cls, calibration: Calibration, learning: Learning) -> Calibration:
        """Return a calibration with what the column needs to know of the set.

        Raises:
            AsdfError: an option requests it, and it cannot be learnt.
        """
        return calibration

    def with_options(self, options: Any) -> ScoreColumn:
        """Return the column with the options of a command line."""
        return self

    def add(self, heard: Heard) -> Any:
        """Return the value for a recording; None if it does not apply."""
        return heard.extras.get(self.key)

    def remark(self, value: Any, heard: Heard) -> str:
        """Return a sentence of caution about the score; ''."""
        return ""

    def heading(self) -> dict[str, Any]:
        """Return what a whole file says once, as plain values."""
        return {}

    def describe(self) -> str:
        """Return how recordings are scored, in a sentence for the first lines; ''."""
        return ""

    def work(self) -> Any:
        """Return what saved values depend on besides the network, as plain values."""
        return None

    @classmethod
    def row(cls, value: Any) -> tuple[Any, ...]:
        """Return the cells; None for an empty one."""
        return (value,)

    @classmethod
    def entry(cls, value: Any) -> dict[str, Any]:
        """Return plain values, for JSON: the fields of a dataclass, or the value by its key."""
        return {cls.key: value} if cls.kind is None else asdict(value)

    @classmethod
    def placed(cls, value: Any) -> list[tuple[int, dict[str, Any]]]:
        """Return the plain values with their places among the keys of others."""
        return [(cls.place[1], cls.entry(value))]

    @classmethod
    def words(cls, value: Any) -> str:
        """Return a sentence for a screen; '' says nothing."""
        return ""

    @classmethod
    def facts(cls, value: Any, threshold: float | None) -> dict[str, str]:
        """Return what a page states of the value in a table, as texts by name.

        Args:
            threshold: Threshold of the verdict on the recording.
        """
        return {}

    @classmethod
    def sentences(cls, value: Any, verdict: str | None) -> list[str]:
        """Return what a page says of the value beside the score, as sentences."""
        return []

    @classmethod
    def rows(cls, value: Any, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the fields of results with lines of their own, below the recording `name`."""
        return ()

    @classmethod
    def title(cls, value: Any) -> str:
        """Return what is shown behind the name of the recording; ''."""
        return ""

    @classmethod
    def veto(cls, value: Any, verdict: str) -> str | None:
        """Return another verdict; None: the verdict stays."""
        return None

    @classmethod
    def doubts(cls, value: Any) -> bool:
        """Return whether the score is not valid for the recording."""
        return False

    @classmethod
    def moved(cls, value: Any, move: Callable[[Any], Any]) -> Any:
        """Return the value with other times: those that `move` gives its windows."""
        return value

    def saved(self, value: Any) -> Any:
        """Return plain values from which `restored` makes the same value, for a journal."""
        return value if self.kind is None else asdict(value)

    def restored(self, saved: Any) -> Any:
        """Return the value of what was saved."""
        if self.kind is None:
            return saved
        # JSON has no tuples.
        plain = {
            name: tuple(item) if isinstance(item, list) else item for name, item in saved.items()
        }
        return self.kind(**plain)


def find_columns(named: Iterable[str] = ()) -> dict[str, type[ScoreColumn]]:
    """Return the classes of all columns by key, in the order in which they are computed.

    Args:
        named: Class paths of further columns.

    Raises:
        UsageError: there is no such class, or its class is no `ScoreColumn`.
    """
    extras = provided("COLUMNS")
    core = {key: path for key, path in COLUMNS.items() if key not in extras}
    columns: dict[str, type[ScoreColumn]] = {}
    for key, path in {**core, **extras}.items():
        columns[key] = load(path)
    for path in named:
        column = find_class(path, Path(), "columns", ScoreColumn)
        columns[column.key] = column
    return columns


def make_columns(request: Request, named: Iterable[str] = ()) -> tuple[ScoreColumn, ...]:
    """Return the columns of a detector, in the order in which they are computed.

    Raises:
        UsageError, AsdfError: as `find_columns` and `ScoreColumn.wanted`.
    """
    made = [column.wanted(request) for column in find_columns(named).values()]
    return tuple(column for column in made if column is not None)


def in_table(columns: Iterable[ScoreColumn]) -> list[ScoreColumn]:
    """Return the columns in the order of their cells in CSV."""
    return sorted(columns, key=lambda column: column.place[0])


def join_placed(placed: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the plain values of several columns in the order of their places.

    What one says of an entry of another, a mapping, is joined to it.
    """
    entry: dict[str, Any] = {}
    for _, values in sorted(placed, key=lambda each: each[0]):
        for name, value in values.items():
            known = entry.get(name)
            entry[name] = {**known, **value} if isinstance(known, dict) else value
    return entry


def four_digits(value: float) -> str:
    """Return a number for a table on a page."""
    return f"{value:.4f}".replace("-", "−")


@dataclass(frozen=True)
class Ratio:
    """A score that is a likelihood ratio.

    Attributes:
        llr: Natural-log likelihood ratio of bona fide against spoof.
        unbounded_llr: Value of the calibration's map, if its set supports only `llr`; else None.
            Thresholds are compared with it.
        is_clear: Whether it tells bona fide speech from spoofs; if not, the verdict is 'undecided'.
    """

    llr: float
    unbounded_llr: float | None = None
    is_clear: bool = field(default=True, kw_only=True)


class LlrColumn(ScoreColumn):
    """The score of a calibrated network as a log-likelihood ratio."""

    key = "llr"
    attributes: ClassVar[dict[str, Any]] = {"llr": None, "unbounded_llr": None}
    cells: ClassVar[tuple[str, ...]] = ("log10_llr", "unbounded_llr")
    place = (30, 20)
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "llr": (float, "The score, where it is a natural-log likelihood ratio."),
        "log10_llr": (float, "The same to the base of ten."),
        "unbounded_llr": (
            float,
            "Unbounded value of the calibration's map, where its set supports only `llr`.",
        ),
    }
    # Words are for people: programs find them in --csv and --json.
    is_for_people = True
    kind = Ratio

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration

    @classmethod
    def wanted(cls, request: Request) -> LlrColumn | None:
        return None if request.calibration is None else cls(request.calibration)

    def add(self, heard: Heard) -> Ratio:
        is_clear = self.calibration.is_clear(heard.score)
        return Ratio(heard.score, self.calibration.beyond(heard.raw), is_clear=is_clear)

    def remark(self, value: Ratio, heard: Heard) -> str:
        # If the score is not judged, the limit of the calibration does not matter.
        return self.calibration.describe_limit(heard.raw) if heard.judged else ""

    @classmethod
    def row(cls, value: Ratio) -> tuple[Any, ...]:
        return log10_llr(value.llr), value.unbounded_llr

    @classmethod
    def entry(cls, value: Ratio) -> dict[str, Any]:
        entry = {"llr": value.llr, "log10_llr": log10_llr(value.llr)}
        if value.unbounded_llr is not None:
            entry["unbounded_llr"] = value.unbounded_llr
        return entry

    @classmethod
    def facts(cls, value: Ratio, threshold: float | None) -> dict[str, str]:
        return {
            "LLR (natural logarithm)": four_digits(value.llr),
            "log10 of the ratio": four_digits(log10_llr(value.llr)),
        }

    @classmethod
    def words(cls, value: Ratio) -> str:
        return "" if value.is_clear else CANNOT_TELL

    @classmethod
    def veto(cls, value: Ratio, verdict: str) -> str | None:
        return None if value.is_clear else UNDECIDED
