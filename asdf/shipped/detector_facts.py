"""What is known of the shipped detector: where its files are, and what its scores are worth.

Invariant: each number comes from `facts.json`, which `python -m benchmarks.small_detector` writes
together with the network file; no error rate of it is written anywhere else in the code.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from asdf.text import AnyPath

SMALL = "small"
"""Name by which the detector is used wherever a network is named."""

ARCHITECTURE = "AASIST-L"
"""Name of its network among the published detectors, by which it is used as well."""

_FOLDER = Path(__file__).parent / SMALL
NETWORK = _FOLDER / "small.safetensors"
"""The network file, with its calibration."""

FACTS = _FOLDER / "facts.json"
"""What is known and was measured of it."""


@dataclass(frozen=True)
class ShippedDetector:
    """A detector of the installation, and how it did on recordings that it had not heard.

    Attributes:
        architecture: Name that its authors gave to the network.
        trained_on: Training data, in words.
        published_eer: EER in % that its authors state, on `published_set`.
        licence: Licence of the weights.
        weights: Address of the file that they were taken from.
        weights_sha256: SHA-256 of that file.
        sha256: SHA-256 of the network file here.
        measured_on: Recordings that it was measured and calibrated on, in words.
        bona_fide, spoof, speakers: Numbers of these recordings and their speakers.
        eer, eer_low, eer_high: EER in % on them, and its 95 % interval over speakers.
        eer_by_attack: EER in % of each attack by its name.
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
        """Return in one line what it is and what it is worth."""
        return (
            f"{SMALL}: {self.architecture}, trained on {self.trained_on}. {self.describe_worth()}"
        )

    def describe_worth(self) -> str:
        """Return how often it errs on recordings that it had not heard, and what follows."""
        worst = max(self.eer_by_attack, key=self.eer_by_attack.__getitem__)
        return (
            f"On {self.bona_fide + self.spoof} recordings of others it errs in {self.eer:.0f} % "
            f"(EER; 95 %: {self.eer_low:.0f} to {self.eer_high:.0f}), on {worst} in "
            f"{self.eer_by_attack[worst]:.0f} %. Its verdict is no evidence by itself."
        )


@cache
def shipped_detector() -> ShippedDetector:
    """Return what is known of the shipped detector."""
    return ShippedDetector(**json.loads(FACTS.read_text(encoding="utf-8")))


def is_shipped(named: AnyPath) -> bool:
    """Whether `named` is the shipped detector: its name, unless a file has it, or its path."""
    path = Path(os.fspath(named))
    if path == NETWORK:
        return True
    names = (SMALL, ARCHITECTURE.lower())
    return str(path).lower() in names and not path.exists()
