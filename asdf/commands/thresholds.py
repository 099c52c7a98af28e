"""The threshold at which `evaluate` decides: stated, of another set, or of a calibrated network.

Invariant: a threshold never comes from the trials that are judged without a warning that says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import flag, option
from asdf.commands.outputs import input_name
from asdf.commands.score_files import ProtocolOptions, System
from asdf.errors import AsdfError, UsageError
from asdf.metrics.decisions import Threshold
from asdf.metrics.thresholds import THRESHOLD_RULES, choose_threshold, score_threshold
from asdf.runs.streams import show_error
from asdf.trials.decision_file import BETWEEN

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores

_IN_WORDS = {
    "eer": "at the EER",
    "min-dcf": "at the minDCF",
    "best-f1": "at the best macro-F1",
    "best-accuracy": "at the best accuracy",
    "best-balanced-accuracy": "at the best balanced accuracy",
}
_DECIDED = Threshold(BETWEEN, "decided by the system itself")


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions(ProtocolOptions):
    """Decisions: accuracy, F1, macro-F1, precision and recall; bona fide from the threshold on."""

    threshold: float | None = option(
        "decide at this score",
        metavar="X",
        one_of="threshold",
    )
    threshold_from: tuple[str, ...] = option(
        "decide where these scores of another set say; once per system, in their order",
        metavar="DEV",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    threshold_of: tuple[str, ...] = option(
        "decide as this calibrated network does; once per system, in their order",
        metavar="NETWORK",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    decisions: bool = flag(
        "SCORES are decisions: 'UTT bonafide|spoof' or AT-ADD's csv of real and fake",
        one_of="threshold",
    )
    threshold_by: str | None = option(
        "where on DEV (eer); best-f1 is the best macro-F1",
        choices=THRESHOLD_RULES,
    )
    threshold_protocol: Path | None = option(
        "label file of DEV, if it has none",
        metavar="P",
    )
    threshold_subset: str | None = option(
        "only this subset of that label file",
        metavar="S",
    )


def check_thresholds(args: ThresholdOptions, systems: Sequence[System]) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: see the messages.
    """
    only_with_dev = (args.threshold_by, args.threshold_protocol, args.threshold_subset)
    if any(only_with_dev) and not args.threshold_from:
        raise UsageError(
            "--threshold-by, --threshold-protocol and --threshold-subset are about the set that "
            "the threshold comes from: give --threshold-from too."
        )
    if args.threshold_subset and not args.threshold_protocol:
        raise UsageError("--threshold-subset is of a label file: give --threshold-protocol too.")
    if args.threshold is not None and not math.isfinite(args.threshold):
        raise UsageError(f"--threshold {args.threshold}: it must be a finite number.")
    if args.decisions and args.protocol is None:
        raise UsageError("--decisions have no labels: give the protocol of the set, --protocol P.")
    for name, named in (("from", args.threshold_from), ("of", args.threshold_of)):
        if named and len(named) != len(systems):
            raise UsageError(
                f"--threshold-{name} is given {len(named)} times for {len(systems)} "
                "systems: scores of different systems have different thresholds, so name one for "
                "each, in the order of the systems."
            )


def threshold_of(args: ThresholdOptions, index: int, scores: Scores) -> Threshold | None:
    """Return the threshold of a system; None where none is requested.

    Args:
        index: Index of the system among those of the command line.
        scores: Scores that are judged. A warning is shown where the threshold comes from trials of
            them.

    Raises:
        AsdfError: a file cannot be read, or the network is not calibrated.
    """
    if args.decisions:
        return _DECIDED
    if args.threshold is not None:
        return Threshold(args.threshold, "as stated")
    if args.threshold_of:
        return _threshold_of_network(args.threshold_of[index])
    if args.threshold_from:
        return _threshold_of_set(args, Path(args.threshold_from[index]), scores)
    return None


def _threshold_of_set(args: ThresholdOptions, path: Path, judged: Scores) -> Threshold:
    from asdf.corpora import choose_subset, read_protocol
    from asdf.metrics.detection import DetCurve
    from asdf.trials.matching import read_matched

    trials = whole = None
    if args.threshold_protocol:
        whole = read_protocol(args.threshold_protocol)
        trials = whole
        if args.threshold_subset:
            trials = choose_subset(whole, args.threshold_subset, args.threshold_protocol)
    scores, _ = read_matched(path, trials, whole=whole)
    shared = len(set(scores.ids).intersection(judged.ids))
    if shared:
        show_error(
            f"warning: {shared} of the {len(judged)} trials that are judged are in "
            f"{input_name(path)}, which the threshold comes from: the decisions look better than "
            "they are on new trials."
        )
    rule = args.threshold_by or "eer"
    value = choose_threshold(DetCurve.of_scores(scores), rule)
    return Threshold(value, f"{_IN_WORDS[rule]} of {input_name(path)}")


def _threshold_of_network(name: str) -> Threshold:
    # Networks are read with torch, which takes seconds to import.
    from asdf.checkpoint.network_reading import read_network_file
    from asdf.interchange import find_network
    from asdf.metrics.calibration import read_calibration

    file = read_network_file(find_network(name))
    calibration = read_calibration(file.calibration, name)
    if calibration is None:
        raise AsdfError(
            f"{name} is not calibrated, so it has no threshold. Calibrate it first: python -m asdf "
            f"calibrate {name} DEV_SCORES"
        )
    return Threshold(score_threshold(calibration), f"of the calibrated network {name}")
