"""Draw docs/quickstart.svg from what a quickstart has written: python docs/quickstart_picture.py SYSTEM_FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import NormalDist

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from asdf.evaluation import det_curve, eer, read_scores
from asdf.runs.evaluations import best_first, metrics_evaluations
from asdf.runs.layout import Layout

BLUE, ORANGE = "#0072b2", "#d55e00"  # told apart by colour-blind eyes
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)


def probit(rate: np.ndarray | float) -> np.ndarray:
    """The axis of DET plots: normal scores become straight lines."""
    return np.array(
        [NormalDist().inv_cdf(min(max(one, 1e-6), 1 - 1e-6)) for one in np.atleast_1d(rate)]
    )


def main(system: Path) -> None:
    plt.rcParams.update({"svg.hashsalt": "asdf", "font.size": 9, "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    records = [json.loads(line) for line in Layout(system).metrics.read_text().splitlines()]
    steps = [one for one in records if one["kind"] == "step"]
    evaluations = [one for one in records if one["kind"] == "evaluation"]
    left.plot([one["epoch"] for one in steps], [one["loss"] for one in steps], color=BLUE)
    left.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    left.yaxis.label.set_color(BLUE)
    beside = left.twinx()
    name = next(iter(evaluations[0]["eer"]))
    beside.plot(
        [e["epoch"] for e in evaluations],
        [100 * e["eer"][name] for e in evaluations],
        "o-",
        color=ORANGE,
    )
    beside.set(ylabel=f"EER on {name} (%)", ylim=(-1, 50))
    beside.yaxis.label.set_color(ORANGE)
    best = best_first(metrics_evaluations(records))[0].network
    scores = read_scores(Layout(system).score_file(best, "demo-eval"))
    spoofs = {"unseen attack": [], "seen attacks": []}
    attacks = attack_of(system.parent / "demo_corpus")
    for utterance, label, score in zip(scores.ids, scores.labels, scores.scores, strict=True):
        if not label:
            spoofs[
                "unseen attack" if attacks[Path(utterance).stem] == "A04" else "seen attacks"
            ].append(score)
    curves = {"all": scores.spoof, **{kind: np.array(values) for kind, values in spoofs.items()}}
    for (kind, spoof), style, colour in zip(
        curves.items(), ("-", "--", ":"), ("black", ORANGE, BLUE), strict=True
    ):
        miss, false_alarm, _ = det_curve(scores.bona_fide, spoof)
        label = f"{kind}: EER {100 * eer(scores.bona_fide, spoof)[0]:.1f} %"
        right.step(
            probit(false_alarm), probit(miss), style, color=colour, label=label, where="post"
        )
    for axis, set_ticks in (("x", right.set_xticks), ("y", right.set_yticks)):
        set_ticks(probit(np.array(TICKS)), [f"{100 * one:g}" for one in TICKS])
        getattr(right, f"set_{axis}lim")(*probit(np.array([0.008, 0.6])))
    right.set(
        xlabel="false alarms: spoof accepted (%)",
        ylabel="misses: bona fide rejected (%)",
        aspect="equal",
    )
    right.grid(alpha=0.3)
    right.legend(loc="center left", fontsize=8, framealpha=1, title="demo-eval")
    figure.savefig(Path(__file__).parent / "quickstart.svg", metadata={"Date": None})


def attack_of(corpus: Path) -> dict[str, str]:
    """The attack of each utterance of the evaluation set."""
    protocol = corpus / "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.eval.trl.txt"
    return {columns[1]: columns[3] for columns in map(str.split, protocol.read_text().splitlines())}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
