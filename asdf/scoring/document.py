"""Descriptions of scores: in words above a table, and as a JSON document per recording.

Invariant: commands and programs describe a detector's scores alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asdf.facts import SAMPLE_RATE
from asdf.hub import parse_name
from asdf.scoring.detector import Detector
from asdf.scoring.made_by import made_by, provenance_of, score_command
from asdf.scoring.parts import PartSearch
from asdf.scoring.scored import Scored, WindowScore
from asdf.trials.how_scored import in_precision


@dataclass(frozen=True)
class Heading:
    """Description of the scores in a table.

    Attributes:
        scores: Recordings that were scored, in words: trials or whole recordings, and their length.
        network: Path of the network file, or its name on the hub with the commit.
        kind: Kind of the scores, 'score' or 'llr'.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        decision: Description of the threshold, in words.
        precision: Number format that the network computed in.
        calibration: Origin and limits of LLRs (`Calibration.summary`); None: not known.
        source_column: Meaning of the classes of a network that traces sources; ''.
        part_search: Description of the search for parts; None: no search.
        made_by: Versions, digest, date and options (`asdf.scoring.made_by`), for JSON; None:
            omitted.
        remark: Sentence on what limits all scores of the network; ''.
        of_speakers: Whether scores are of single speakers of a conversation.
    """

    scores: str
    network: str
    kind: str
    threshold: float | None
    decision: str
    precision: str = "fp32"
    calibration: dict[str, Any] | None = None
    source_column: str = ""
    part_search: PartSearch | None = None
    made_by: dict[str, Any] | None = None
    remark: str = ""
    of_speakers: bool = False

    def entries(self) -> dict[str, Any]:
        """Return the fields as plain values, without those that do not apply."""
        entries = asdict(self)
        if not self.source_column:
            del entries["source_column"]
        if not self.of_speakers:
            del entries["of_speakers"]
        # asdict has also taken the learnt threshold's counts, a number per genuine recording.
        del entries["part_search"]
        if self.part_search is not None:
            entries["part_search"] = self.part_search.entry()
        for name in ("made_by", "calibration"):
            if entries[name] is None:
                del entries[name]
        if not self.remark:
            del entries["remark"]
        return entries


def make_heading(detector: Detector, network: str, are_trials: bool) -> Heading:
    """Return what the scores of a detector are, in words, with the threshold."""
    # The column is named by the kind, so that no reader takes raw scores for LLRs.
    kind = "score" if detector.calibration is None else "llr"
    decision = ""
    threshold = detector.threshold
    if detector.calibration is not None and threshold == detector.calibration.threshold:
        decision = detector.calibration.describe()
    elif threshold is not None:
        name = "a score" if detector.calibration is None else "an LLR"
        decision = f"bona fide from {name} of {threshold:g} on"
    scores = f"{_describe_scores(detector, are_trials)}{in_precision(detector.precision)}"
    classes = detector.source_classes
    return Heading(
        scores,
        network,
        kind,
        threshold,
        decision,
        detector.precision,
        source_column=classes.column if classes else "",
        part_search=None if are_trials else detector.hearing.summary.search,
        calibration=detector.calibration.summary() if detector.calibration else None,
        remark=detector.remark,
    )


def _describe_scores(detector: Detector, are_trials: bool) -> str:
    samples = detector.length.max_samples or 0
    if not are_trials:
        samples = detector.window_samples
    rate = detector.length.sample_rate
    at_rate = "" if rate == SAMPLE_RATE else f" at {rate / 1000:g} kHz"
    length = f"{samples:,} samples{at_rate} ({round(samples / rate, 2):g} s)"
    if not are_trials:
        return (
            f"scores of whole recordings; of those longer than {length}, the mean over windows of "
            "that length"
        )
    if detector.length.min_samples == samples:
        return f"trial scores of the first {length}, shorter recordings repeated"
    return f"trial scores of whole recordings up to {length}, of longer ones the beginning"


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

    def make(
        self,
        result: Scored,
        windows: Sequence[WindowScore],
        trial: bool,
        window: tuple[float, float] | None,
    ) -> dict[str, Any]:
        """Return the document of a result, with its windows.

        Args:
            trial: Whether it is a trial score.
            window: Seconds of a window and from one to the next; None without windows.
        """
        entry = result.entry()
        if windows:
            entry["windows"] = [each.entry() for each in windows]
        network = self.of_trials.network
        command = score_command(self._detector, network, result.name, trial, window)
        heading = self.of_trials if trial else self.of_whole
        return {
            **heading.entries(),
            "recordings": [entry],
            # In files of `score --json`, which have the same form, a list may not be finished.
            "complete": True,
            "made_by": made_by(self.provenance, trial, window, command),
        }
