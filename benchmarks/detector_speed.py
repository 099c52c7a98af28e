"""Cost of published detectors on a CPU, with random weights of their shapes.

    python -m benchmarks.detector_speed AASIST_L AASIST RawNet2 SSL_AASIST:wav2vec2_xlsr_300m

An argument is a network, or NETWORK:FRONT_END. The output is CPU seconds per minute of audio, with
one thread in float32, over windows of 64,600 samples as in `score`. The numbers go into
asdf/hub/detectors.json. CPU time is used because it is less affected by other work on the machine
than the clock.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from asdf.facts import SAMPLE_RATE
from asdf.interchange import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.scoring.detector import Detector
from asdf.settings import Sections

SECONDS = 60
PUBLISHED_SAMPLES = 64_600


def measure(name: str) -> float:
    """Return CPU seconds per minute of audio for NETWORK or NETWORK:FRONT_END."""
    settings = Sections()
    settings.network.min_evaluation_utterance_length_in_samples = PUBLISHED_SAMPLES
    settings.network.max_evaluation_utterance_length_in_samples = PUBLISHED_SAMPLES
    network_class, _, front_end = name.partition(":")
    settings.network.network_class = f"asdf.networks.{network_class}"
    if front_end:
        settings.front_end.architecture = front_end
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.pt"
        write_network_file(path, NetworkFile.from_network(build_network(settings), settings))
        detector = Detector(path, device="cpu", threads=1).warm_up()
    noise = 0.1 * torch.randn(SECONDS * SAMPLE_RATE).numpy()
    began = time.process_time()
    detector.score_whole(noise, SAMPLE_RATE)
    return (time.process_time() - began) * 60 / SECONDS


def main(names: list[str]) -> int:
    for name in names:
        print(f"{name}: {measure(name):.1f} s of a processor per minute of audio", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
