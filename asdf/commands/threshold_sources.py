"""Thresholds for decisions from another set, or from a calibrated network.

Invariant: if a threshold comes from the trials that it decides, a warning says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import input_name
from asdf.errors import AsdfError
from asdf.metrics.decisions import Threshold
from asdf.metrics.thresholds import choose_threshold, score_threshold
from asdf.runs.streams import show_error

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores

_IN_WORDS = {
    "eer": "at the EER",
    "min-dcf": "at the minDCF",
    "best-f1": "at the best macro-F1",
    "best-accuracy": "at the best accuracy",
    "best-balanced-accuracy": "at the best balanced accuracy",
}


@dataclass(frozen=True)
class LabelFile:
    """The label file of a set, and its subset; None: the scores have labels."""

    path: Path | None
    subset: str | None


def threshold_of_set(path: Path, labels: LabelFile, rule: str, judged: Scores) -> Threshold:
    """Return the threshold that a rule chooses on another set.

    Args:
        path: Score file of the set.
        rule: Rule for choosing the threshold, one of `THRESHOLD_RULES`.
        judged: Scores to decide; a warning is shown if the set shares trials with them.

    Raises:
        AsdfError: a file cannot be read, or the files do not match.
    """
    from asdf.corpora import choose_subset, read_protocol
    from asdf.metrics.detection import DetCurve
    from asdf.trials.formats import read_score_file
    from asdf.trials.matching import read_matched

    if labels.path:
        trials = whole = read_protocol(labels.path)
        if labels.subset:
            trials = choose_subset(whole, labels.subset, labels.path)
        scores, _ = read_matched(path, trials, whole=whole)
    else:
        scores = read_score_file(path).labelled(path)
    shared = len(set(scores.ids).intersection(judged.ids))
    if shared:
        show_error(
            f"warning: {shared} of the {len(judged)} evaluated trials are also in "
            f"{input_name(path)}, which determines the threshold, so the decisions look better "
            "than on new trials."
        )
    value = choose_threshold(DetCurve.of_scores(scores), rule)
    return Threshold(value, f"{_IN_WORDS[rule]} of {input_name(path)}")


def is_one_network(paths: Sequence[Path]) -> bool:
    """Return whether score files state that the same network made all of them."""
    networks = {_network_of(path) for path in paths}
    # A file without a statement may be of any network.
    return len(networks) == 1 and None not in networks


def warn_of_other_network(source: Path, judged: Path) -> None:
    """Show a warning if a threshold comes from the scores of another network."""
    theirs, ours = _network_of(source), _network_of(judged)
    if theirs is not None and ours is not None and theirs != ours:
        show_error(
            f"warning: the threshold comes from {input_name(source)}, whose scores are from "
            f"another network file (SHA-256 {theirs[:12]}...) than those of {input_name(judged)} "
            f"({ours[:12]}...). Unless one is a calibrated copy of the other, score both sets with "
            "the same network: a threshold applies only to scores of the same network."
        )


def _network_of(path: Path) -> str | None:
    """Return the digest of the network that made a score file; None if unknown."""
    from asdf.trials.scored_files import read_how_scored

    stated = read_how_scored(path)
    return None if stated is None else stated.network


def threshold_of_network(name: str) -> Threshold:
    """Return the threshold of a calibrated network.

    Raises:
        AsdfError: the network cannot be read, or is not calibrated.
    """
    # Networks are read with torch, which takes seconds to import.
    from asdf.checkpoint.network_reading import read_network_file
    from asdf.interchange import find_network
    from asdf.metrics.calibration import read_calibration

    file = read_network_file(find_network(name))
    calibration = read_calibration(file.calibration, name)
    if calibration is None:
        raise AsdfError(
            f"{name} is not calibrated, so it has no threshold. Calibrate it first: "
            f"python -m asdf calibrate {name} DEV_SCORES"
        )
    return Threshold(score_threshold(calibration), f"of the calibrated network {name}")
