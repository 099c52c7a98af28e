"""Draw docs/quickstart.svg from the files of a quickstart.

python docs/quickstart_picture.py SYSTEM_FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from asdf.evaluation import Scores, read_scores
from asdf.metrics.detection import DetCurve
from asdf.report.curves import ThinnedCurve, probit, thinned_det
from asdf.report.drawing import training_course
from asdf.runs.evaluations import best_first, metrics_evaluations
from asdf.trials.run_folder import open_run_folder

# Colours that colour-blind eyes distinguish.
BLUE = "#0072b2"
ORANGE = "#d55e00"
TICKS = (1, 2, 5, 10, 20, 40, 60, 80, 90)
LIMITS = (0.8, 95)
UNSEEN_ATTACK = "A04"


def main(system: Path) -> None:
    """Draw the training on the left, the DET curves of the best network on the right."""
    plt.rcParams.update({"svg.hashsalt": "asdf", "font.size": 9, "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    run = open_run_folder(system)
    records = run.training()
    draw_training(left, records)
    best = best_first(metrics_evaluations(records))[0].network
    scores = read_scores(run.score_file(str(best), "demo-eval"))
    draw_det_curves(right, curves_by_attack(scores, read_attacks(system.parent / "demo_corpus")))
    # Without a date, the same numbers give the same file.
    figure.savefig(Path(__file__).parent / "quickstart.svg", metadata={"Date": None})


def draw_training(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    """Draw the loss of the training and, on an axis of its own, the EER on the first set."""
    course = training_course("quickstart", records)
    axes.plot(course.loss[::2], course.loss[1::2], color=BLUE)
    axes.set(title="Training", xlabel="epoch", ylabel="training loss", ylim=(0, None))
    axes.yaxis.label.set_color(BLUE)
    name, eers = next(iter(course.eers.items()))
    right_axis = axes.twinx()
    right_axis.plot(eers[::2], eers[1::2], "o-", color=ORANGE)
    right_axis.set(ylabel=f"EER on {name} (%)", ylim=(-1, 50))
    right_axis.yaxis.label.set_color(ORANGE)


def curves_by_attack(scores: Scores, attacks: dict[str, str]) -> dict[str, ThinnedCurve]:
    """Return the curves of all spoofs, of the attack that training had not, and of the others."""
    unseen = []
    seen = []
    for utterance, label, score in zip(scores.ids, scores.labels, scores.scores, strict=True):
        if label:
            continue
        is_unseen = attacks[Path(utterance).stem] == UNSEEN_ATTACK
        group = unseen if is_unseen else seen
        group.append(score)
    spoofs = {"all": scores.spoof, "unseen attack": unseen, "seen attacks": seen}
    curves = {}
    for name, group in spoofs.items():
        curves[name] = thinned_det(DetCurve.of(scores.bona_fide, np.array(group)))
    return curves


def draw_det_curves(axes: Any, curves: dict[str, ThinnedCurve]) -> None:
    """Draw DET curves on normal deviates of the rates in %."""
    styles = (("-", "black"), ("--", ORANGE), (":", BLUE))
    for (name, curve), (dashes, colour) in zip(curves.items(), styles, strict=True):
        # Without an error, a curve lies on the axes.
        errors = f"EER {100 * curve.eer:.1f} %" if curve.eer else "no error"
        label = f"{name}: {errors}"
        x = deviates(curve.rates[::2])
        y = deviates(curve.rates[1::2])
        axes.plot(x, y, dashes, color=colour, label=label)
    texts = [f"{tick:g}" for tick in TICKS]
    axes.set_xticks(deviates(TICKS), texts)
    axes.set_yticks(deviates(TICKS), texts)
    axes.set_xlim(*deviates(LIMITS))
    axes.set_ylim(*deviates(LIMITS))
    axes.set(
        title="demo-eval",
        xlabel="false alarms: spoof accepted (%)",
        ylabel="misses: bona fide rejected (%)",
        aspect="equal",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=7, framealpha=1, handlelength=1.5)


def deviates(percents: Sequence[float]) -> np.ndarray:
    """Return the normal deviates of rates in %."""
    return probit(np.asarray(percents) / 100, 0.0, 1.0)


def read_attacks(corpus: Path) -> dict[str, str]:
    """Return the attack of each utterance of the evaluation set."""
    protocol = corpus / "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.eval.trl.txt"
    attacks = {}
    for line in protocol.read_text().splitlines():
        _, utterance, _, attack, _ = line.split()
        attacks[utterance] = attack
    return attacks


if __name__ == "__main__":
    main(Path(sys.argv[1]))
