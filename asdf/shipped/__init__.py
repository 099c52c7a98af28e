"""The detector that is part of the installation: its files in `small`, and its error rates.

Invariant: each number comes from `facts.json`, which `python -m benchmarks.small_detector` writes
together with the network file; the code contains none of its error rates.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from asdf.text import AnyPath

SMALL = "small"
"""Name of the detector, accepted wherever a network is named."""

ARCHITECTURE = "AASIST-L"
"""Name of its network among the published detectors, which is accepted too."""

_FOLDER = Path(__file__).parent / SMALL
NETWORK = _FOLDER / "small.safetensors"
"""The network file, with its calibration."""

FACTS = _FOLDER / "facts.json"
"""Facts and measurements of the detector."""


@dataclass(frozen=True)
class ShippedDetector:
    """A detector of the installation, with its results on unseen recordings.

    Attributes:
        architecture: Authors' name of the network.
        trained_on: Training data, in words.
        published_eer: EER in % stated by its authors, on `published_set`.
        licence: Licence of the weights.
        weights: Address of the original weights file.
        weights_sha256: SHA-256 of that file.
        sha256: SHA-256 of the network file here.
        measured_on: Recordings on which it was measured and calibrated, in words.
        bona_fide, spoof, speakers: Numbers of these recordings and their speakers.
        eer, eer_low, eer_high: EER in % on them, and its 95 % interval over speakers.
        eer_by_attack: EER in % for each attack, by name.
    """

    architecture: str
    trained_on: str
    published_set: str
    published_eer: float
    licence: str
    weights: str
    weights_sha256: str
    sha256: str
    measured_on: str
    bona_fide: int
    spoof: int
    speakers: int
    eer: float
    eer_low: float
    eer_high: float
    eer_by_attack: dict[str, float]

    @property
    def path(self) -> Path:
        """Path of the network file."""
        return NETWORK

    @property
    def licence_path(self) -> Path:
        """Path of the licence's text."""
        return _FOLDER / "LICENSE.txt"

    def describe(self) -> str:
        """Return a description in one line, with its error rate."""
        return (
            f"{SMALL}: {self.architecture}, trained on {self.trained_on}. {self.describe_worth()}"
        )

    def describe_worth(self) -> str:
        """Return its error rate on unseen recordings, and what follows from it."""
        worst = max(self.eer_by_attack, key=self.eer_by_attack.__getitem__)
        return (
            f"On {self.bona_fide + self.spoof} recordings of others it errs in {self.eer:.0f} % "
            f"(EER; 95 %: {self.eer_low:.0f} to {self.eer_high:.0f}), on {worst} in "
            f"{self.eer_by_attack[worst]:.0f} %. Its verdict is no evidence by itself."
        )


@cache
def shipped_detector() -> ShippedDetector:
    """Return the facts about the shipped detector."""
    return ShippedDetector(**json.loads(FACTS.read_text(encoding="utf-8")))


def is_shipped(named: AnyPath) -> bool:
    """Whether `named` is the shipped detector: its path, or its name if no file has it."""
    path = Path(os.fspath(named))
    if path == NETWORK:
        return True
    names = (SMALL, ARCHITECTURE.lower())
    return str(path).lower() in names and not path.exists()
