"""Recommended detectors: one for each of three needs, by explicit rules.

Invariant: a choice follows only from published numbers and licences by its rule; times were
measured by `python -m benchmarks.detector_speed`, and are None if they were not measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from asdf.hub.hub_detectors import DF_ARENA_LICENCE, KnownDetector, PublishedEer
from asdf.hub.published_detectors import NOT_STATED, known_detectors
from asdf.shipped import SMALL, shipped_detector

IN_THE_WILD = "In-the-Wild"
HARDEST = "Deepfake-Eval-2024"
COMMERCIAL = {
    "MIT": True,
    "Apache-2.0": True,
    "Apache 2.0": True,
    "BSD 3-Clause": True,
    "CC BY-NC-SA 4.0": False,
    DF_ARENA_LICENCE: False,
}
"""Licences of weights, with whether they allow commercial use."""

MEASURED_ON = "one thread of an AMD EPYC under other load, float32"
# CPU seconds per minute of audio, of networks with these sizes and random weights.
_CPU_SECONDS = {
    SMALL: 0.4,
    "AASIST-L": 3.7,
    "AASIST": 4.2,
    "RawNet2 of ASVspoof 2021": 1.8,
    "nii-yamagishilab/wav2vec-small-anti-deepfake": 9.0,
    "nii-yamagishilab/wav2vec-small-anti-deepfake-nda": 9.0,
    "nii-yamagishilab/mms-300m-anti-deepfake": 21.6,
    "nii-yamagishilab/mms-300m-anti-deepfake-nda": 21.6,
    "lab260/Spectra-AASIST": 21.8,
    "Nes2Net-X": 21.9,
    "Nes2Net-X, mean of 5 checkpoints": 21.9,
    "SLS": 22.0,
    "lab260/Spectra-0": 22.0,
    "TCM": 22.8,
    "AustinXiao/XLSR-Mamba-LA": 22.8,
    "AustinXiao/XLSR-Mamba-DF": 22.8,
    "SSL_Anti-spoofing": 23.3,
    "lab260/Spectra-AASIST3": 24.8,
    "nii-yamagishilab/mms-1b-anti-deepfake": 59.3,
    "nii-yamagishilab/mms-1b-anti-deepfake-nda": 59.3,
    "nii-yamagishilab/xls-r-1b-anti-deepfake": 59.3,
    "nii-yamagishilab/xls-r-1b-anti-deepfake-nda": 59.3,
    "nii-yamagishilab/xls-r-2b-anti-deepfake": 123.7,
    "nii-yamagishilab/xls-r-2b-anti-deepfake-nda": 123.7,
}
_FLOAT32_BYTES = 4
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9}
_NUMBER = re.compile(r"([\d.,]+) ?([kMB]?)")


@dataclass(frozen=True)
class Recommendation:
    """A recommended detector for a need.

    Attributes:
        need: Need in a few words.
        why: Rule of the choice, with the decisive number.
    """

    need: str
    detector: KnownDetector
    why: str


def allows_commercial_use(detector: KnownDetector) -> bool | None:
    """Return whether the licence of the weights allows commercial use; None if unknown."""
    return COMMERCIAL.get(detector.licence or "")


def count_parameters(detector: KnownDetector) -> int | None:
    """Return the stated number of parameters, such as 300 M + 447 k; None if not stated."""
    if detector.parameters is None:
        return None
    total = 0.0
    for number, unit in _NUMBER.findall(detector.parameters):
        total += float(number.replace(",", "")) * _UNITS[unit]
    return round(total)


def weights_bytes(detector: KnownDetector) -> int | None:
    """Return the size of the weights: of their file, or approximately as float32 numbers."""
    if detector.size_bytes is not None:
        return detector.size_bytes
    parameters = count_parameters(detector)
    return None if parameters is None else _FLOAT32_BYTES * parameters


def cpu_seconds(detector: KnownDetector) -> float | None:
    """Return CPU seconds per minute of audio (`MEASURED_ON`); None if not measured."""
    return _CPU_SECONDS.get(detector.name)


def shipped_known() -> KnownDetector:
    """Return the facts about the shipped detector, in the form of those of published ones."""
    facts = shipped_detector()
    rates = {"held-out attacks and speakers": facts.eer, facts.elsewhere: facts.elsewhere_eer}
    return KnownDetector(
        name=SMALL,
        trained_on="; ".join([facts.trained_on, *map(": ".join, facts.sources.items())]),
        trained_on_short="mini",
        overlap="mini",
        protocol="whole recordings",
        weights="a part of ASDF",
        command="python -m asdf score call.mp3",
        paper="docs/small_detector.md",
        eers=tuple(PublishedEer(name, rate) for name, rate in rates.items()),
        parameters=f"{facts.parameters:,}",
        licence=facts.licence,
        size_bytes=facts.path.stat().st_size,
        sha256=facts.sha256,
    )


def recommended() -> list[Recommendation]:
    """Return a detector for each of three needs."""
    detectors = known_detectors()
    best = _lowest(detectors, HARDEST)
    # An error rate is meaningless if the set may be training data.
    stated = [each for each in detectors if each.trained_on_short != NOT_STATED]
    allowed = [each for each in stated if allows_commercial_use(each)]
    commercial = _lowest(allowed, IN_THE_WILD)
    return [
        Recommendation("offline and small", shipped_known(), "included in ASDF; needs no download"),
        Recommendation(
            "best known error rates",
            best,
            f"the lowest EER on {HARDEST}, {_percent(best, HARDEST):.2f} %",
        ),
        Recommendation(
            "commercial use allowed",
            commercial,
            f"the lowest EER on {IN_THE_WILD} under such a licence and with known training data, "
            f"{_percent(commercial, IN_THE_WILD):.2f} %",
        ),
    ]


def _lowest(detectors: Iterable[KnownDetector], evaluation_set: str) -> KnownDetector:
    measured = []
    for each in detectors:
        if evaluation_set in {eer.evaluation_set for eer in each.eers}:
            measured.append(each)
    return min(measured, key=lambda each: _percent(each, evaluation_set))


def _percent(detector: KnownDetector, evaluation_set: str) -> float:
    """Return the first stated EER on a set, in %."""
    return next(eer.percent for eer in detector.eers if eer.evaluation_set == evaluation_set)
