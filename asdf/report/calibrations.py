"""What a report shows of networks that are calibrated: their likelihood ratios on each set.

Invariant: a calibration is that of the very network whose scores are shown, read from its file; a
run without one gets the page that it had before there were any.
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
from asdf.report.gathering import Gathered
from asdf.report.llr_pictures import llr_figures
from asdf.report.measurement import Measurement
from asdf.runs.network_names import NetworkName

# A name that every calibration has, and nothing else in a network's file.
_SIGN = b"spoof_prior"
# Of more systems no curve can be followed.
_MAX_SYSTEMS = 4


@dataclass(frozen=True)
class LlrSection:
    """The likelihood ratios on a set.

    Attributes:
        sentences: What each calibration was learnt from, and what its ratios are worth here.
    """

    sentences: list[str]
    figures: list[Figure]


def llr_section(gathered: Gathered, set_name: str) -> LlrSection | None:
    """Return the ratios of the calibrated networks on a set; None where there are none.

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
                f"{name} was calibrated on this very set: on others its ratios are worth less."
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
    """Return the calibration in a network's file; None where it has none, or cannot be read."""
    if not _may_be_calibrated(path):
        return None
    # Imported here: torch takes seconds, and few runs are calibrated.
    from asdf.checkpoint.network_reading import read_network_file

    try:
        file = read_network_file(path, mapped=True)
        return read_calibration(file.calibration, path)
    except AsdfError:
        # A report is of scores, which need no network.
        return None


def _may_be_calibrated(path: Path) -> bool:
    """Return whether the file of a network names what only calibrations have, without torch."""
    try:
        with zipfile.ZipFile(path) as file:
            for name in file.namelist():
                if name.endswith("/data.pkl"):
                    return _SIGN in file.read(name)
    except (OSError, zipfile.BadZipFile):
        return False
    return False
