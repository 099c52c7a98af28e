from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def speech() -> np.ndarray:
    """Two seconds like speech: syllables of a gliding pitch, with breath between them."""
    t = np.arange(32000) / 16000
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * t)) / 16000
    voiced = sum(np.sin(k * phase) / k for k in range(1, 20))
    breath = np.random.default_rng(0).standard_normal(len(t))
    syllables = np.sin(2 * np.pi * 2.3 * t) ** 2
    return (0.2 * (syllables * voiced + 0.1 * (1 - syllables) * breath)).astype(np.float32)
