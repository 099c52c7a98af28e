"""Scores in bf16 where oneDNN refuses bfloat16: emulated, with a warning, and no error of torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asdf.interchange import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.recordings import noise_waveforms, write_recordings

HELD = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


@pytest.mark.parametrize("engine", ["packed", "plain"])
def test_bf16_on_a_processor_without_it_is_emulated(tmp_path: Path, engine: str) -> None:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_AASIST"
    settings.front_end.architecture = "tiny"
    write_network_file(
        tmp_path / "net.pt", NetworkFile.from_network(build_network(settings), settings)
    )
    write_recordings(tmp_path, noise_waveforms([16000]))
    (recording,) = tmp_path.glob("*.wav")
    scores = []
    for precision in ("bf16", "fp32"):
        words = ["score", "net.pt", recording.name, "--precision", precision, "--engine", engine]
        ended = subprocess.run(
            [sys.executable, "-m", "asdf", *words],
            cwd=tmp_path,
            env={**os.environ, **HELD},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
        assert ("bf16 is emulated" in ended.stderr) == (precision == "bf16")
        scores.append(float(ended.stdout.split("\t")[1]))
    # bfloat16 has 8 bits, and the network some ten layers.
    assert scores[0] == pytest.approx(scores[1], abs=0.1)
