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

_FOLDER = Path(__file__).parent / SMALL
NETWORK = _FOLDER / "small.safetensors"
"""The network file, with its calibration."""

GRAPH = _FOLDER / "small.onnx"
"""The network as a graph of ONNX, for waveforms of any length."""

FACTS = _FOLDER / "facts.json"
"""Facts and measurements of the detector."""


@dataclass(frozen=True)
class ShippedDetector:
    """The detector of the installation, with its results on recordings unlike its training's.

    Attributes:
        architecture: Config of the recipe that trained it.
        parameters: Number of its parameters.
        trained_on: Training data, in words.
        sources: Sources of the training data, with the licence of each.
        licence: Licence of the weights.
        sha256: SHA-256 of the network file.
        ratio_bona_fide, ratio_spoof: Largest likelihood ratios that its calibration states.
        bona_fide, spoof, speakers: Numbers of recordings and speakers that it was calibrated on, by
            networks whose training had neither their attacks nor their speakers.
        eer, eer_low, eer_high: EER in % on them, and its 95 % interval over speakers.
        eer_by_attack: EER in % for each attack, by name.
        elsewhere: Recordings of other sources, in words.
        elsewhere_eer: EER in % on them.
        elsewhere_by_attack: EER in % for each attack, by name.
        elsewhere_accused: Share in % of their genuine ones with a ratio of 2 or more for spoof.
    """

    architecture: str
    parameters: int
    trained_on: str
    sources: dict[str, str]
    licence: str
    sha256: str
    ratio_bona_fide: float
    ratio_spoof: float
    bona_fide: int
    spoof: int
    speakers: int
    eer: float
    eer_low: float
    eer_high: float
    eer_by_attack: dict[str, float]
    elsewhere: str
    elsewhere_eer: float
    elsewhere_by_attack: dict[str, float]
    elsewhere_accused: float

    @property
    def path(self) -> Path:
        """Path of the network file."""
        return NETWORK

    def describe(self) -> str:
        """Return a description in one line, with its error rate."""
        return (
            f"{SMALL}: {self.architecture}, trained on {self.trained_on}. {self.describe_worth()}"
        )

    def describe_worth(self) -> str:
        """Return its range and error rates on unseen recordings, and what follows from them."""
        worst = max(self.elsewhere_by_attack, key=self.elsewhere_by_attack.__getitem__)
        return (
            f"It states no ratio above {self.ratio_bona_fide:.0f} to 1 for bona fide and "
            f"{self.ratio_spoof:.0f} to 1 for spoof. It errs in {self.eer:.0f} % (EER; 95 %: "
            f"{self.eer_low:.0f} to {self.eer_high:.0f}) of {self.bona_fide + self.spoof} "
            "unaltered recordings whose attacks and speakers training lacked, in "
            f"{self.elsewhere_eer:.0f} % of {self.elsewhere}, on {worst} in "
            f"{self.elsewhere_by_attack[worst]:.0f} %; {self.elsewhere_accused:.0f} % of the "
            "genuine ones there get a ratio of 2 or more for spoof. Its verdict is no evidence by "
            "itself."
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
    return str(path).lower() == SMALL and not path.exists()
