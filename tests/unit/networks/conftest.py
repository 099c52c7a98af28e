"""Reference networks, small settings, and waveforms to feed them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from asdf.settings.sections import Sections

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "tests" / "fixtures" / "networks", ROOT.parent / "shared" / "reference")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def reference() -> Callable[[str], Path]:
    """The path of a reference file, from the fixtures or the folder `shared` beside the checkout."""

    def find(name: str) -> Path:
        found = next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)
        if found is None:
            pytest.skip(f"{name} is too large for the fixtures, and {FOLDERS[1]} is not there")
        return found

    return find


@pytest.fixture(scope="session")
def recorded(reference: Callable[[str], Path]) -> Callable[[str], dict[str, torch.Tensor]]:
    """The tensors of a reference .npz file."""
    return lambda name: {
        key: torch.from_numpy(value) for key, value in np.load(reference(name)).items()
    }


@pytest.fixture
def tiny() -> Sections:
    """Settings with the tiny front end."""
    settings = Sections()
    settings.front_end.architecture = "tiny"
    return settings


@pytest.fixture
def waveforms() -> torch.Tensor:
    """Two waveforms of half a second at about the level of speech."""
    return 0.1 * torch.randn(2, 8000, generator=torch.Generator().manual_seed(1))
