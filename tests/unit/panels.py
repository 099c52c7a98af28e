"""Detectors of known competence: each hears one tone's level, and what it is worth is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from tests.unit.conftest import small_settings

RATE = 16000
# Frequencies in Hz, and by how much the tone is louder, in deviations, where speech is bona fide.
TONES = {"a": (400, 2.0), "b": (1500, 1.5), "chance": (3000, 0.0), "turned": (6000, -2.0)}


def tone_settings():
    """Return the settings of a linear layer on the mean of a filter bank."""
    settings = small_settings(network_class="asdf.networks.ComposedDetector")
    settings.front_end.front_end_class = "filter_bank"
    settings.back_end.back_end_class = "linear"
    return settings


def write_recording(path: Path, levels: dict[str, float], seconds: float = 0.6) -> None:
    """Write a sum of the tones at these levels, in nepers, with a little noise."""
    rng = np.random.default_rng(len(path.name))
    samples = round(seconds * RATE)
    times = np.arange(samples) / RATE
    waveform = rng.normal(0, 1e-4, samples)
    for name, level in levels.items():
        frequency, _ = TONES[name]
        waveform += 0.01 * np.exp(level) * np.sin(2 * np.pi * frequency * times)
    soundfile.write(path, waveform, RATE, subtype="FLOAT")


def write_control(folder: Path, count: int = 60, speakers: int | None = None) -> dict[str, list]:
    """Write recordings with a table of trials, and return the level of each tone in each."""
    rng = np.random.default_rng(5)
    labels = (np.arange(count) % 2).tolist()
    levels: dict[str, list] = {name: [] for name in TONES}
    rows = ["utterance\tlabel" + ("" if speakers is None else "\tspeaker") + "\n"]
    for index, label in enumerate(labels):
        drawn = {}
        for name, (_, distance) in TONES.items():
            drawn[name] = 0.4 * float(rng.normal() + distance * label)
            levels[name].append(drawn[name])
        write_recording(folder / f"{index}.wav", drawn)
        speaker = "" if speakers is None else f"\ts{(index // 2) % speakers}"
        rows.append(f"{index}.wav\t{label}{speaker}\n")
    (folder / "control.tsv").write_text("".join(rows))
    return {**levels, "labels": labels}


def write_detectors(folder: Path) -> None:
    """Write a network file per tone, whose score follows the tone's level."""
    settings = tone_settings()
    network = build_network(settings)
    front_end = network.front_end
    times = torch.arange(8000) / RATE
    weight = network.back_end.proj_fc.weight
    for name, (frequency, _) in TONES.items():
        tone = 0.01 * torch.sin(2 * torch.pi * frequency * times)
        features_BLC = front_end(tone[None])
        band = int(features_BLC.mean(dim=1)[0].argmax())
        with torch.no_grad():
            weight.zero_()
            weight[1, band] = 3.0
            network.back_end.proj_fc.bias.zero_()
        write_network_file(folder / f"{name}.pt", NetworkFile.from_network(network, settings))
