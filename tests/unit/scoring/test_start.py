"""`score` starts without torch's compiler, which takes a second to load, and its algebra."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.networks.casting import without_numbers
from asdf.settings.sections import Sections

PROGRAM = """
import sys
from asdf.__main__ import main
status = main(["score", *sys.argv[1:]])
print(status, sorted({"torch._dynamo", "sympy"} & sys.modules.keys()))
"""


def tiny(name: str) -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{name}"
    settings.front_end.architecture = "tiny"
    return settings


@pytest.mark.slow_but("SSL_AASIST")
@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_MHFA"])
def test_scoring_does_not_load_the_compiler(tmp_path, name):
    settings = tiny(name)
    network = NetworkFile.from_network(build_network(settings), settings)
    write_network_file(tmp_path / "n.pt", network)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 20_000)
    soundfile.write(tmp_path / "a.wav", noise, 16_000)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "n.pt", tmp_path / "a.wav"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []"


def test_recordings_become_results_without_torch() -> None:
    """All but the engine is numpy: torch is imported with a network."""
    rooms = ("columns", "scored", "parts", "recordings", "speakers", "pipeline", "many")
    imports = "; ".join(f"import asdf.scoring.{room}" for room in rooms)
    program = f"import sys; {imports}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_MHFA"])
def test_a_network_without_numbers_has_the_shapes_of_a_real_one(name):
    with without_numbers():
        outline = build_network(tiny(name))
    real = build_network(tiny(name)).state_dict()
    assert {name: part.shape for name, part in outline.state_dict().items()} == {
        name: part.shape for name, part in real.items()
    }
    assert all(part.is_meta for part in outline.state_dict().values())


@pytest.mark.parametrize("dim", [-1, 0, 2])
def test_norms_have_their_shapes(dim):
    weight = torch.ones(3, 4, 5)
    with without_numbers():
        shape = torch.norm_except_dim(weight.to("meta"), 2, dim).shape
        # A real tensor's norm is computed.
        norms = torch.norm_except_dim(weight, 2, dim)
    assert shape == norms.shape
    assert float(norms.flatten()[0]) == pytest.approx((60 / max(1, norms.numel())) ** 0.5)
