"""Turn a network's scores into log-likelihood ratios (LLR) with a threshold, learnt from a score file of its own.

    python -m asdf calibrate network.pt scores/epoch.4/dev.txt                           threshold at the EER
    python -m asdf calibrate network.pt dev.txt --out calibrated.pt                      leave network.pt as it is
    python -m asdf calibrate network.pt dev.txt --prior 0.05 --cost-miss 1 --cost-fa 10  threshold of these costs

The score file is one of this network: from stage 2 of a recipe, or of `python -m asdf score ... --scores`. It should
be of recordings like those that are to be judged, and of none that the network was trained on. The mapping and the
threshold are kept in the network file; `score` and `asdf.Detector` then use them. Calibrating again replaces them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.outputs import check_file, input_name, show
from asdf.errors import AsdfError, UsageError

if TYPE_CHECKING:
    from asdf.metrics.calibration import Calibration
    from asdf.metrics.costs import DetectionCost
    from asdf.trials.score_file import Scores


def main(arguments: list[str]) -> int:
    """Calibrate a network file; 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: the network or the scores cannot be read or used, or the result cannot be written.
    """
    given = _parser().parse_args(arguments)
    cost = _cost(given)
    if given.out:
        check_file(given.out)
    from asdf.trials.formats import read_any_scores

    scores = read_any_scores(given.scores)
    # From here on torch is needed, which takes seconds to import.
    from asdf.interchange.network_file import read_network_file, write_content
    from asdf.metrics.calibration import calibrate

    content = read_network_file(given.network)
    if not isinstance(content.get("settings"), dict):
        raise AsdfError(
            f"{given.network} does not say which network it is. Turn it into a network of ASDF first: "
            f"python -m asdf import {given.network} OUT"
        )
    try:
        calibration = calibrate(scores.bona_fide, scores.spoof, cost)
    except AsdfError as error:
        raise AsdfError(f"{input_name(given.scores)}: {error}") from None
    out = given.out or given.network
    write_content(out, {**content, "calibration": calibration.content()})
    _compare_names(given.network, given.scores)
    show(_report(given.scores, scores, calibration))
    show(f"written to {out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf calibrate",
        usage="python -m asdf calibrate NETWORK SCORES [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", type=Path, metavar="NETWORK", help="a network file of ASDF")
    parser.add_argument(
        "scores",
        type=Path,
        metavar="SCORES",
        help="its score file: 'path label score' per line; - is standard input",
    )
    parser.add_argument(
        "--out", type=Path, metavar="NETWORK2", help="write here instead of into NETWORK"
    )
    parser.add_argument(
        "--at-eer", action="store_true", help="threshold where both error rates are equal (default)"
    )
    parser.add_argument(
        "--prior", type=float, metavar="P", help="proportion of spoofs that is expected (0.05)"
    )
    parser.add_argument(
        "--cost-miss", type=float, metavar="C", help="cost of bona fide taken for a spoof (1)"
    )
    parser.add_argument(
        "--cost-fa", type=float, metavar="C", help="cost of a spoof taken for bona fide (10)"
    )
    return parser


def _cost(given: argparse.Namespace) -> DetectionCost | None:
    """The costs given, those not given being ASVspoof 5's; None for the threshold of the EER."""
    from asdf.metrics.costs import DetectionCost

    named = {"spoof_prior": given.prior, "miss": given.cost_miss, "false_alarm": given.cost_fa}
    chosen = {name: value for name, value in named.items() if value is not None}
    if not chosen:
        return None
    if given.at_eer:
        raise UsageError("--at-eer and costs are two different thresholds: give one of them.")
    if not np.isfinite(list(chosen.values())).all():
        raise UsageError("a prior and costs are finite numbers.")
    try:
        return DetectionCost(**chosen)
    except ValueError:
        raise UsageError(
            "--prior lies between 0 and 1, and is not one of them; costs are positive."
        ) from None


def _compare_names(network: Path, scores: Path) -> None:
    """Warn when the folder of the scores is that of another network: recipes write scores/<network>/<set>.txt."""
    folder = scores.resolve().parent
    if folder.parent.name == "scores" and folder.name != network.resolve().stem:
        show(
            f"warning: {scores} was likely made with {folder.name}.pt, and the network is {network.name}. LLRs from "
            "the scores of another network mean nothing; ignore this if it is a copy of that network.",
            sys.stderr,
        )


def _report(path: Path, scores: Scores, calibration: Calibration) -> str:
    from asdf.metrics.costs import cllr, min_cllr
    from asdf.metrics.detection import eer
    from asdf.trials.how_scored import in_precision
    from asdf.trials.scored_files import how_scored

    llrs = calibration.llr(scores.bona_fide), calibration.llr(scores.spoof)
    before, after = cllr(scores.bona_fide, scores.spoof), cllr(*llrs)
    lines = [
        f"{input_name(path)}: {scores.bona_fide.size} bona fide, {scores.spoof.size} spoof, "
        f"EER {100 * eer(scores.bona_fide, scores.spoof)[0]:.2f} %{in_precision(how_scored(path).precision)}",
        f"LLR = {calibration.scale:.6g} * score {calibration.offset:+.6g}",
        f"Cllr {before:.4f} bits before, {after:.4f} after; no rising map has less than "
        f"{min_cllr(scores.bona_fide, scores.spoof):.4f}",
        calibration.describe(),
        f"on these scores {100 * np.mean(llrs[0] < calibration.threshold):.2f} % of the bona fide are missed, "
        f"{100 * np.mean(llrs[1] >= calibration.threshold):.2f} % of the spoofs accepted",
    ]
    if scores.bona_fide.min() >= scores.spoof.max():
        lines.append(
            "No spoof scores above a bona fide recording, so these scores do not show how rare errors are: the LLRs "
            "claim no more than one error in as many trials as there are. More trials would tell more."
        )
    return "\n".join(lines)
