"""Likelihood ratios of calibrated networks on each set, for a report.

Invariant: a calibration is read from the file of the same network whose scores are shown; the page
of a run without a calibration is unaffected.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.llr_quality import llr_quality
from asdf.report.drawing import Figure
from asdf.report.gathering import Gathered, Measurement
from asdf.report.llr_pictures import llr_figures
from asdf.runs.layout import NetworkName

# A name in every calibration, and nowhere else in a network's file.
_SIGN = b"spoof_prior"
# Maximum number of systems whose curves can be distinguished.
_MAX_SYSTEMS = 4


@dataclass(frozen=True)
class LlrSection:
    """The likelihood ratios on a set.

    Attributes:
        sentences: Statements of the training data of each calibration, and of its quality on this
            set.
    """

    sentences: list[str]
    figures: list[Figure]


def llr_section(gathered: Gathered, set_name: str) -> LlrSection | None:
    """Return the likelihood ratios of the calibrated networks on a set; None without any.

    Raises:
        AsdfError: a score file cannot be read.
    """
    curves: dict[str, DetCurve] = {}
    sentences = []
    for measured in gathered.on(set_name):
        calibration = _calibration_of(gathered, measured)
        if calibration is None or len(curves) == _MAX_SYSTEMS:
            continue
        run = gathered.runs[measured.run]
        scores = run.scores(measured.network, set_name)
        bona_fide = calibration.llr(scores.bona_fide)
        spoof = calibration.llr(scores.spoof)
        curve = DetCurve.of(bona_fide, spoof)
        name = gathered.labels[measured.system]
        curves[name] = curve
        origin = calibration.describe_origin()
        origin = origin or "calibrated on a set that its file does not name"
        quality = llr_quality(curve)
        sentences.append(f"{name}: {origin}.")
        sentences.append(f"{name} on {set_name}: {quality.describe()}.")
        if calibration.set == set_name:
            sentences.append(
                f"{name} was calibrated on this very set: its ratios are less reliable on "
                "other sets."
            )
    if not curves:
        return None
    return LlrSection(sentences, llr_figures(curves))


def _calibration_of(gathered: Gathered, measured: Measurement) -> Calibration | None:
    run = gathered.runs[measured.run]
    network = NetworkName(measured.network)
    path = run.layout.network_file(network)
    return read_run_calibration(path)


def read_run_calibration(path: Path) -> Calibration | None:
    """Return the calibration in a network's file; None if there is none or it is unreadable."""
    if not _may_be_calibrated(path):
        return None
    # Imported here because torch takes seconds to import, and few runs are calibrated.
    from asdf.checkpoint.network_reading import read_network_file

    try:
        # Mapped, since the calibration is a few bytes of a file of gigabytes.
        file = read_network_file(path, mapped=True)
        return read_calibration(file.calibration, path)
    except AsdfError:
        # A report shows scores, which do not need the network.
        return None


def _may_be_calibrated(path: Path) -> bool:
    """Return whether a network's file contains a name of calibrations only, without torch."""
    try:
        with zipfile.ZipFile(path) as file:
            for name in file.namelist():
                # torch.save writes a zip; all but the tensors is in this pickle.
                if name.endswith("/data.pkl"):
                    return _SIGN in file.read(name)
    except (OSError, zipfile.BadZipFile):
        return False
    return False
