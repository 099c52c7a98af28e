"""The answers of a service: their documents, and the types of its OpenAPI description.

Both are the output of `python -m asdf score --json` for one recording; what columns say of it is
described by the columns.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

from asdf.hub import parse_name
from asdf.scoring.columns import find_columns
from asdf.scoring.document import made_by, make_heading, provenance_of
from asdf.scoring.scored import Scored, WindowScore

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


class _Answer(BaseModel):
    # The text below a field is its description. Answers may have more fields than are described.
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class WindowAnswer(_Answer):
    """The score of a part of a recording."""

    start_s: float
    """Where the part begins, in seconds of the recording."""
    end_s: float
    """Where the part ends, in seconds of the recording."""
    score: float
    """Score of this part by itself: the higher, the more bona fide."""
    unbounded_llr: float | None = None
    """Value of the calibration's map, where the score is one of its bounds."""


class ShownAnswer(_Answer):
    """What a page shows of a score besides, in words."""

    facts: dict[str, str]
    """Texts for a table, by their names."""
    sentences: list[str]
    """Sentences about the score."""
    doubt: list[str]
    """Why the score is not valid for the recording, in few words and as a sentence; empty if it is
    valid."""
    is_clear: bool
    """Whether the score is a likelihood ratio that tells genuine speech from spoofed speech."""


_ANSWERS = {WindowScore: WindowAnswer, list[WindowScore]: list[WindowAnswer]}


def _described(
    name: str,
    base: type[_Answer],
    fields: Mapping[str, tuple[Any, str]],
    doc: str | None = None,
    are_required: bool = False,
) -> type[_Answer]:
    """Return an answer with what columns say: types and meanings by name, in addition to `base`.

    Args:
        are_required: Whether each of the fields is there, except those that may be None.
    """
    made: dict[str, Any] = {}
    for key, (kind, meaning) in fields.items():
        is_required = are_required and not isinstance(kind, Mapping)
        if isinstance(kind, Mapping):
            title = "".join(part.capitalize() for part in key.split("_"))
            kind = _described(f"{title}Answer", _Answer, kind, meaning, are_required=True)
        kind = _ANSWERS.get(kind, kind)
        if is_required and NoneType not in get_args(kind):
            made[key] = (kind, Field(description=meaning))
        else:
            made[key] = (kind | None, Field(None, description=meaning))
    return create_model(name, __base__=base, __doc__=doc or base.__doc__, **made)


_COLUMNS = find_columns().values()


def _of_columns(*, of_speakers: bool) -> dict[str, tuple[Any, str]]:
    """Return what columns say of a recording, or of a speaker alone."""
    columns = [column for column in _COLUMNS if column.of_speakers == of_speakers]
    return {key: each for column in columns for key, each in column.answer.items()}


def stated_columns() -> list[tuple[str, ...]]:
    """Return the cells in CSV of each column whose cells stand in answers by these names."""
    stated = [column for column in _COLUMNS if column.cells and {*column.cells} <= {*column.answer}]
    return [column.cells for column in sorted(stated, key=lambda column: column.place[0])]


class _Recording(_Answer):
    """The score of a recording; the higher, the more bona fide."""

    path: str
    """Name of the uploaded file; '-' where it has none."""
    sha256: str
    """SHA-256 of the uploaded file, as `sha256sum` prints it."""
    score: float
    """The higher, the more bona fide; `kind` states what it is."""
    verdict: str | None
    """'bona fide'; 'spoof'; 'mixed', where one of `parts` is clearly spoofed and the whole is not,
    or `channels` differ; or 'undecided', where neither can be told; null without a threshold, or
    for the reason in `remark`."""
    seconds: float
    """Length of the recording."""
    seconds_scored: float
    """Seconds of the recording that were scored."""
    level_dbfs: float | None = None
    """Level of what was heard in dB of full scale, without its constant offset."""
    offset: float | None = None
    """Constant offset of the samples, whose full scale is 1."""
    lowest: WindowAnswer | None = None
    """The window with the lowest score, where the score is the mean of several windows."""
    remark: str | None = None
    """A limitation of this score in words, such as too little speech."""
    shown: ShownAnswer | None = None
    """What a page shows of it besides, where the query has `outline`."""
    windows: list[WindowAnswer] | None = None
    """Scores over time, where the query has `window`."""


RecordingAnswer = _described("RecordingAnswer", _Recording, _of_columns(of_speakers=False))


class _Speaker(_Answer):
    """The score of a speaker of a conversation; other fields are as of a recording."""

    score: float | None
    """Score of the speech of this speaker alone; null if there is none."""
    verdict: str | None
    """As for a recording; null for the reason in `remark`."""


SpeakerAnswer = _described(
    "SpeakerAnswer", _Speaker, _of_columns(of_speakers=True), are_required=True
)


class OutlineAnswer(_Answer):
    """The lowest and highest sample of equal parts of the recording."""

    low: list[float]
    """Lowest sample of each part, from -1 to 1."""
    high: list[float]
    """Highest sample of each part, from -1 to 1."""


class MadeByAnswer(_Answer):
    """What made a score, so that it can be cited and made again."""

    asdf: str
    """Version of ASDF."""
    torch: str
    """Version of PyTorch."""
    network_sha256: str | None
    """SHA-256 of the network's file, as `sha256sum` prints it; for a fused system that of its own
    file, which states those of its networks."""
    date: str
    """Date and time of the score in UTC, in ISO 8601."""
    options: dict[str, Any]
    """Options that the score depends on."""
    command: str
    """Command that reproduces this where the files have these names."""


class _Score(_Answer):
    """What `python -m asdf score --json` writes, with one recording."""

    scores: str
    """Description of the part of a recording that is scored."""
    network: str
    """Name of the network's file, or its name on the hub."""
    kind: str
    """'llr' (natural log-likelihood ratio) or 'score'."""
    threshold: float | None
    """Lowest score that is called bona fide; null: no verdicts."""
    decision: str
    """The threshold in words; empty without one."""
    precision: str
    """Number format that the network computes in, as 'fp32'."""
    calibration: dict[str, Any] | None = None
    """Set, numbers and limits of the calibration, `origin` in words."""
    remark: str | None = None
    """A limitation of all scores of this detector in words; absent where none is known."""
    recordings: list[RecordingAnswer] = Field(  # type: ignore[valid-type]
        min_length=1, max_length=1
    )
    """The recording, as a list of one."""
    speakers: list[SpeakerAnswer] | None = None  # type: ignore[valid-type]
    """A score per speaker, where the form has turns of speakers as `rttm`."""
    complete: bool
    """Always true: no recording is missing from the list."""
    made_by: MadeByAnswer
    """Versions, digest, date and options."""
    outline: OutlineAnswer | None = None
    """The waveform for a picture, where the query has `outline`."""


ScoreAnswer = _described(
    "ScoreAnswer",
    _Score,
    {key: each for column in _COLUMNS for key, each in column.answer_heading.items()},
)


class RefusalAnswer(_Answer):
    """Why there is no score."""

    error: str
    """The reason and what to do, in a sentence."""


class HealthAnswer(_Answer):
    """Whether the service takes recordings."""

    ready: bool
    """Whether a recording that is sent now would be scored."""
    problem: str
    """Why not; empty if it would."""
    seconds_left: float | None
    """Estimated seconds until this process has scored all that waits; null before it is known."""


class LiveAnswer(_Answer):
    """Whether the service works."""

    live: bool
    """Whether the network is responsive: no forward pass hangs."""
    problem: str
    """Why a restart would help; empty if it would not."""


class ReadyAnswer(HealthAnswer):
    """Whether the service takes recordings, and which network scores them."""

    network_sha256: str | None
    """SHA-256 of the file of the network that answers new requests."""


class VersionAnswer(_Answer):
    """Versions, and the network."""

    asdf: str
    """Version of ASDF."""
    torch: str
    """Version of PyTorch."""
    network: str
    """Name of the network's file, or its name on the hub."""
    network_sha256: str | None
    """SHA-256 of the network's file, as `sha256sum` prints it."""


def score_command(
    detector: Detector,
    network: str,
    recording: str,
    trial: bool,
    window: tuple[float, float] | None,
) -> str:
    """Return the command that scores a recording as a detector does.

    Folders on the detector's machine are omitted, because they mean nothing elsewhere.

    Args:
        network: Name of the network's file, or its name on the hub.
        recording: Name of the recording's file.
        trial, window: Kind of the score and its windows, as in `made_by`.
    """
    arguments = detector.arguments
    words = ["asdf-antispoofing", "score", network, recording]
    for name in ("device", "threads", "precision", "engine", "base", "threshold", "speech_check"):
        value = arguments[name]
        if name == "base" and value is not None and not parse_name(value):
            value = Path(value).name
        if value is not None:
            # The form with '=' is needed because a threshold may begin with a minus sign.
            words.append(f"--{name.replace('_', '-')}={value}")
    if arguments["full_length"]:
        words.append("--full-length")
    if not arguments["parts"]:
        words.append("--no-parts")
    if trial:
        words.append("--trial")
    if window is not None:
        words += [f"--window={window[0]:g}", f"--hop={window[1]:g}"]
    return shlex.join([*words, "--json=-"])


def entry_of(result: Scored, *, is_shown: bool) -> dict[str, Any]:
    """Return the plain values of a result, and what a page shows of it if it `is_shown`."""
    entry = result.entry()
    if not is_shown:
        return entry
    facts: dict[str, str] = {}
    sentences: list[str] = []
    doubt: list[str] = []
    known = [(result.columns[key], value) for key, value in result.values.items()]
    for column, value in sorted(known, key=lambda each: each[0].place[1]):
        facts |= column.facts(value, result.threshold)
        sentences += column.sentences(value, result.verdict)
        if column.doubts(value):
            doubt = list(column.doubt)
    is_clear = getattr(result.values.get("llr"), "is_clear", False)
    shown = {"facts": facts, "sentences": sentences, "doubt": doubt, "is_clear": is_clear}
    return {**entry, "shown": shown}


class Documents:
    """Makes the JSON documents of `score --json`, one per recording.

    Attributes:
        provenance: Provenance of the detector.
    """

    def __init__(self, detector: Detector, network: str) -> None:
        """Make documents for a detector that was opened by the path or name `network`."""
        self._detector = detector
        self.provenance = provenance_of(detector)
        # The folder on a server is private; a name on the hub is not, and is given with its commit.
        name = detector.source if parse_name(detector.source) else Path(network).name
        self.of_trials = make_heading(detector, name, True)
        self.of_whole = make_heading(detector, name, False)
        self._entries_of_trials = self.of_trials.entries()
        self._entries_of_whole = self.of_whole.entries()

    def make(
        self,
        result: Scored,
        windows: Sequence[WindowScore],
        trial: bool,
        window: tuple[float, float] | None,
        *,
        is_shown: bool = False,
    ) -> dict[str, Any]:
        """Return the document of a result, with its windows.

        Args:
            trial: Whether it is a trial score.
            window: Seconds of a window and from one to the next; None without windows.
            is_shown: Whether it is for a page.
        """
        entry = entry_of(result, is_shown=is_shown)
        if windows:
            entry["windows"] = [each.entry() for each in windows]
        network = self.of_trials.network
        command = score_command(self._detector, network, result.name, trial, window)
        return {
            **(self._entries_of_trials if trial else self._entries_of_whole),
            "recordings": [entry],
            # In files of `score --json`, which have the same form, a list may not be finished.
            "complete": True,
            "made_by": made_by(self.provenance, trial, window, command),
        }
