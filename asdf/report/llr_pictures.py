"""Plots of likelihood ratios: Tippett, empirical cross-entropy and reliability.

Invariant: axes are in log10, as in forensic reports; every curve is over all trials. A calibration
is read from the file of the same network whose scores are shown; the page of a run without a
calibration is unaffected.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.llr_maps import LN10, EmpiricalCrossEntropy, Tippett, llr_quality, reliability
from asdf.report.curves import interleaved, thinned
from asdf.report.drawing import Figure, Legend
from asdf.report.gathering import Gathered
from asdf.runs.layout import NetworkName
from asdf.tables.panels import Axis, Line, Panel, Upright, nice_ticks

# Steps of larger sets are smaller than a pixel.
_MAX_STEPS = 1200
_SIZE = (500, 340)
_CLASSES = ("bona fide", "spoof")
_SHARES = [0, 20, 40, 60, 80, 100]
# A name in every calibration, and nowhere else in a network's file.
_SIGN = b"spoof_prior"
# Maximum number of systems whose curves can be distinguished.
_MAX_SYSTEMS = 4


Drawn = tuple[Panel, dict[str, Line]]
"""A panel, and the name of each line style in it."""


def tippett_panel(systems: Mapping[str, DetCurve]) -> Drawn:
    """Return, for both classes of each system, the proportion with at least a given ratio."""
    lines: list[Line] = []
    legend: dict[str, Line] = {}
    words = []
    ends = [0.0]
    for name, curve in systems.items():
        tippett = Tippett.of(curve)
        prefix = _prefix(name, systems)
        for kind, llrs in zip(_CLASSES, (tippett.bona_fide, tippett.spoof), strict=True):
            shares = 100 * np.arange(llrs.size, -1, -1) / llrs.size
            # At each ratio a step has two points: the share before it and the share after it.
            xs, ys = np.repeat(llrs / LN10, 2).tolist(), np.repeat(shares, 2)[1:-1].tolist()
            line = Line(thinned(xs, ys, _MAX_STEPS), len(lines))
            lines.append(line)
            legend[f"{prefix}{kind}"] = line
            ends += line.points[::2]
        words.append(
            f"{prefix}{100 * tippett.misleading_bona_fide:.1f} % of bona fide recordings below "
            f"ratios of 1, {100 * tippett.misleading_spoof:.1f} % of spoofs above"
        )
    room = 0.04 * (max(ends) - min(ends)) or 1.0
    low, high = min(ends) - room, max(ends) + room
    # Curves cover the full frame: all recordings have at least the lowest ratio.
    lines = [Line([low, 100.0, *line.points, high, 0.0], line.index) for line in lines]
    x_axis = Axis(low, high, nice_ticks(low, high, 7), "log10 of the likelihood ratio")
    y_axis = Axis(0, 100, _SHARES, "Share with at least this ratio (%)")
    marks = [Upright(0.0, "1 : 1", "uninformative ratio")]
    described = f"Tippett plot. {'; '.join(words)}"
    return Panel(x_axis, y_axis, *_SIZE, "", "tippett", described, lines, marks), legend


def _prefix(name: str, systems: Mapping[str, DetCurve]) -> str:
    """Return the words before what belongs to one of several systems."""
    return f"{name}: " if len(systems) > 1 else ""


def ece_panel(systems: Mapping[str, DetCurve]) -> Drawn:
    """Return the cross-entropy of each system over the prior odds, as measured and after PAV."""
    lines: list[Line] = []
    legend: dict[str, Line] = {}
    words = []
    entropies = {name: EmpiricalCrossEntropy.of(curve) for name, curve in systems.items()}
    first = next(iter(entropies.values()))
    # Above the reference a ratio is worse than none; a table states by how much.
    top = 1.2 * float(first.reference.max())
    for name, entropy in entropies.items():
        prefix = _prefix(name, systems)
        for kind, values in (("as they are", entropy.llrs), ("after PAV", entropy.calibrated)):
            line = Line(interleaved(entropy.log10_odds, values), len(lines))
            lines.append(line)
            legend[f"{prefix}{kind}"] = line
        middle = int(np.argmin(np.abs(entropy.log10_odds)))
        words.append(
            f"{prefix}{entropy.llrs[middle]:.3f} bits at prior odds of 1, "
            f"{entropy.calibrated[middle]:.3f} after PAV"
        )
    reference = Line(interleaved(first.log10_odds, first.reference), len(lines))
    legend["ratios of 1 (no information)"] = reference
    low, high = float(first.log10_odds[0]), float(first.log10_odds[-1])
    x_axis = Axis(low, high, nice_ticks(low, high, 6), "log10 of the prior odds of bona fide")
    y_axis = Axis(0, top, nice_ticks(0, top, 5), "Empirical cross-entropy (bits)")
    described = f"Empirical cross-entropy. {'; '.join(words)}"
    return Panel(x_axis, y_axis, *_SIZE, "", "ece", described, [*lines, reference]), legend


def reliability_panel(systems: Mapping[str, DetCurve]) -> Drawn:
    """Return the proportion of bona fide recordings, by the probability that ratios state."""
    lines = [Line([0, 0, 100, 100], css="diagonal")]
    legend: dict[str, Line] = {}
    words = []
    for index, (name, curve) in enumerate(systems.items()):
        bins = reliability(curve)
        points: list[float] = []
        of_bins = []
        for one in bins:
            x, y, low, high = (
                100 * rate for rate in (one.predicted, one.observed, one.low, one.high)
            )
            lines.append(Line([x, low, x, high], index, css="interval"))
            points += [x, y]
            stated = f"stated {x:.1f} %, bona fide {y:.1f} % of {one.trials:,}"
            of_bins.append(f"{stated} ({low:.1f}–{high:.1f} %)")
        line = Line(points, index, mark_words=of_bins)
        lines.append(line)
        counts = ", ".join(f"{one.trials:,}" for one in bins)
        legend[f"{name} ({counts})"] = line
        words.append(f"{name}: recordings per mark from left to right {counts}")
    x_axis = Axis(0, 100, _SHARES, "Stated probability of bona fide (%)")
    y_axis = Axis(0, 100, _SHARES, "Share that is bona fide (%)")
    described = f"Reliability diagram. {'; '.join(words)}"
    return Panel(x_axis, y_axis, *_SIZE, "", "reliability", described, lines), legend


def llr_figures(systems: Mapping[str, DetCurve]) -> list[Figure]:
    """Return the three plots for a page."""
    parts = []
    for name, curve in systems.items():
        counts = ", ".join(f"{one.trials:,}" for one in reliability(curve))
        parts.append(_prefix(name, systems) + counts)
    texts = {
        "Tippett plot": "Share of each class whose ratio is at least the value below. Left of "
        "1 : 1, bona fide recordings mislead; right of it, spoofs do.",
        "Empirical cross-entropy": "Information still missing once the ratio is known, by prior "
        "odds; lower is better. Above the line of no information, ratios do harm; the gap to the "
        "curve after PAV is what a better calibration would save.",
        "Reliability": "Ratios with the odds of this set as the prior, against the true classes; "
        "vertical lines are 95 % intervals. Recordings per mark from left to right: "
        f"{'; '.join(parts)}.",
    }
    figures = []
    drawn = (tippett_panel(systems), ece_panel(systems), reliability_panel(systems))
    for (panel, legend), (title, text) in zip(drawn, texts.items(), strict=True):
        entries = [(line, name) for name, line in legend.items()]
        legends = [Legend("", entries)] if len(entries) > 1 else []
        # A panel's class is also the kind of its figure.
        figures.append(Figure(panel.css, title, text, [panel], css="canvas", legends=legends))
    return figures


def llr_section(gathered: Gathered, set_name: str) -> dict[str, Any] | None:
    """Return the likelihood ratios of the calibrated networks on a set; None without any.

    Its sentences state the training data of each calibration, and its quality on this set.

    Raises:
        AsdfError: a score file cannot be read.
    """
    curves: dict[str, DetCurve] = {}
    sentences = []
    for measured in gathered.on(set_name):
        run = gathered.runs[measured.run]
        calibration = read_run_calibration(run.layout.network_file(NetworkName(measured.network)))
        if calibration is None or len(curves) == _MAX_SYSTEMS:
            continue
        scores = run.scores(measured.network, set_name)
        curve = DetCurve.of(calibration.llr(scores.bona_fide), calibration.llr(scores.spoof))
        name = gathered.labels[measured.system]
        curves[name] = curve
        unnamed = "calibrated on a set that its file does not name"
        sentences.append(f"{name}: {calibration.describe_origin() or unnamed}.")
        sentences.append(f"{name} on {set_name}: {llr_quality(curve).describe()}.")
        if calibration.set == set_name:
            sentences.append(
                f"{name} was calibrated on this very set: its ratios are less reliable on "
                "other sets."
            )
    return {"sentences": sentences, "figures": llr_figures(curves)} if curves else None


def read_run_calibration(path: Path) -> Calibration | None:
    """Return the calibration in a network's file; None if there is none or it is unreadable."""
    try:
        with zipfile.ZipFile(path) as file:
            # torch.save writes a zip; all but the tensors is in this pickle.
            pickles = [name for name in file.namelist() if name.endswith("/data.pkl")]
            if not any(_SIGN in file.read(name) for name in pickles[:1]):
                return None
        # Imported here because torch takes seconds to import, and few runs are calibrated.
        from asdf.checkpoint.network_reading import read_network_file

        # Mapped, since the calibration is a few bytes of a file of gigabytes.
        return read_calibration(read_network_file(path, mapped=True).calibration, path)
    except (AsdfError, OSError, zipfile.BadZipFile):
        # A report shows scores, which do not need the network.
        return None
