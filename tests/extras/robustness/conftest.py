"""Lists of short recordings, and a detector that costs nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.settings.sections import Sections
from asdf.trials.how_scored import ScoredLength
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList


def tone(seconds: float = 1.0, hertz: float = 200.0) -> np.ndarray:
    t = np.arange(round(16000 * seconds)) / 16000
    harmonics = sum(np.sin(2 * np.pi * k * hertz * t) / k for k in range(1, 8))
    return (0.1 * harmonics).astype(np.float32)


@pytest.fixture
def trials(tmp_path: Path) -> TrialList:
    """Twelve recordings of two classes by four speakers, whose level tells them apart."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rng = np.random.default_rng(1)
    lines = ["path,label,speaker"]
    for number in range(24):
        label = number % 2
        samples = tone(0.4, 120 + 10 * number) * (1 + label * rng.uniform(0, 2))
        samples = samples + 0.01 * rng.standard_normal(len(samples))
        soundfile.write(folder / f"r{number}.wav", samples, 16000)
        lines.append(f"r{number}.wav,{label},s{number // 2 % 6}")
    table = folder / "list.csv"
    table.write_text("\n".join(lines) + "\n")
    return read_list(table, folder, "tiny")


class LevelDetector:
    """Scores a recording by its level in dB: a known function of the audio."""

    calibration = None
    threshold: float | None = None
    length = ScoredLength(1, 64000)
    precision = "fp32"
    engine = "plain"
    settings = Sections()

    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope
        self.heard: list[str] = []

    def score_many(self, paths: Sequence[Path]) -> Iterator[Any]:
        for index, path in enumerate(paths):
            self.heard.append(str(path))
            if not Path(path).exists():
                yield SimpleNamespace(index=index, compared=None, error=f"{path} is missing.")
                continue
            yield SimpleNamespace(index=index, compared=self.level(path), error="")

    def level(self, path: Path) -> float:
        samples = read_audio(path).astype(np.float64)
        return float(np.float32(self.slope * 10 * np.log10(np.mean(samples**2) + 1e-9)))
