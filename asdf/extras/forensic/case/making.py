"""A case: recordings, the network that scored them, and its validation.

Invariant: the same files, network and options give the same case; no clock is read. Its date is the
given one, or that of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import soundfile

from asdf.extras.forensic.case.examining import Examined, examine
from asdf.extras.forensic.case.validating import Validation
from asdf.metrics.calibration import Calibration
from asdf.scoring.detector import Detector
from asdf.scoring.document import Heading, make_heading
from asdf.scoring.made_by import Provenance, provenance_of

_WINDOW_S = 4

Tracked = Callable[[Iterable[Examined]], Iterable[Examined]]


@dataclass(frozen=True)
class Headings:
    """The heading of a case.

    Attributes:
        reference: Reference of the case, such as a file number; '' without one.
        examiner: Name of the examiner; ''.
        date: Date as displayed; ''.
    """

    title: str = ""
    reference: str = ""
    examiner: str = ""
    date: str = ""


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        network: Name of the network.
        heading: Description of the scores.
        provenance: Versions, digest and options, with the date of the case.
        software: Further programs with their versions.
        remark: Limitation of all of the network's scores; ''.
        command: Command that reproduces the case.
    """

    headings: Headings
    recordings: tuple[Examined, ...]
    network: str
    heading: Heading
    provenance: Provenance
    software: dict[str, str]
    calibration: Calibration | None
    validation: Validation | None
    remark: str
    command: str
    window: tuple[float, float]

    @property
    def failed(self) -> int:
        """Number of recordings without a score."""
        return sum(bool(each.result.error) for each in self.recordings)


def make_case(
    detector: Detector,
    names: list[str],
    headings: Headings,
    command: str,
    validation: Validation | None = None,
    track: Tracked = iter,
) -> Case:
    """Examine recordings and assemble the case.

    Args:
        track: Function that shows the progress.

    Raises:
        AsdfError: the network's file is missing.
    """
    provenance = provenance_of(detector)
    window = window_of(detector)
    # The number of threads may change the last digits of a score.
    options = {**provenance.options, "threads": detector.threads, "window": window}
    software = {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "libsndfile": soundfile.__libsndfile_version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
    return Case(
        headings,
        tuple(track(examine(detector, names, window))),
        detector.source,
        make_heading(detector, detector.source, False),
        # Not the date of now, which would change the page's bytes from day to day.
        replace(provenance, date=headings.date, options=options),
        software,
        detector.calibration,
        validation,
        detector.remark,
        command,
        window,
    )


def window_of(detector: Detector) -> tuple[float, float]:
    """Return the length and hop of a window in seconds: 4 s, or the network's input, and half."""
    wanted = max(_WINDOW_S * detector.sample_rate, detector.length.min_samples)
    seconds = min(wanted, detector.window_samples) / detector.sample_rate
    return seconds, seconds / 2
