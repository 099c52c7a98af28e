"""Small corpora with a planted shortcut, as files."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from asdf.extras.audit.auditing import Options

RATE = 16_000
QUICK = Options(replicates=20, joint=False)
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def voice(rng: np.random.Generator) -> np.ndarray:
    """Return two to three seconds of a sound with pitch, pauses and a noise floor, 16 bits."""
    count = round(rng.uniform(2, 3) * RATE)
    time = np.arange(count) / RATE
    knots = np.arange(0, 3.2, 0.15)
    pitch = np.interp(time, knots, rng.uniform(90, 220, len(knots)))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = np.zeros(count)
    for harmonic in range(1, 30):
        weight = np.interp(time, knots, rng.uniform(0, 1, len(knots)))
        sound += weight * np.sin(harmonic * phase + rng.uniform(0, 6)) / harmonic
    syllables = np.interp(time, knots, rng.permuted(np.arange(len(knots)) % 3 > 0))
    level = rng.uniform(0.05, 0.1)
    silence = np.zeros(round(rng.uniform(0.05, 0.3) * RATE))
    speech = np.concatenate([silence, level * sound * syllables, silence])
    return speech + rng.normal(0, 3e-4, len(speech))


@cache
def voices(seed: int, count: int) -> list[np.ndarray]:
    """Return the sounds that the corpora of a seed share, which nobody changes in place."""
    rng = np.random.default_rng(seed)
    return [voice(rng) for _ in range(count)]


def write_corpus(
    folder: Path,
    change: Change | None = None,
    count: int = 60,
    seed: int = 0,
    write: Callable[[Path, np.ndarray], None] | None = None,
) -> Path:
    """Write a table of trials with recordings; return its path.

    Args:
        change: Function that alters the spoofs; None: they are as the bona fide recordings.
        write: Function that writes a spoof; None: as FLAC, like the bona fide ones.
    """
    rng = np.random.default_rng([seed, count])
    sounds = voices(seed, max(count, 60))[:count]
    folder.mkdir(parents=True, exist_ok=True)
    labels = rng.permutation(np.arange(count) % 2)
    lines = ["utterance\tlabel\tspeaker"]
    for index, (label, samples) in enumerate(zip(labels, sounds, strict=True)):
        path = folder / f"u{rng.integers(10**6):06}.flac"
        if not label and change is not None:
            samples = change(samples, rng)
        if not label and write is not None:
            write(path, samples)
        else:
            soundfile.write(path, samples, RATE, subtype="PCM_16")
        lines.append(f"{path.name}\t{label}\tspeaker{index % 10}")
    table = folder / "trials.tsv"
    table.write_text("\n".join(lines) + "\n")
    return table
