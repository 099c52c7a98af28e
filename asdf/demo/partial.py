"""Partially spoofed recordings of the demo corpus: words of a voice through a vocoder.

Invariant: both classes have the same sound except in the spoofed parts, which keep the level of the
replaced sound and fade in and out within 5 ms; then both pass the same recorder. Neither level nor
noise nor edges reveal a part, only its phases and its regularity, as in the corpus itself.

They are in a separate folder of the corpus, so that its other files are unchanged. Their lists are
tables with the column `spoofed_s`; a part is stated from the start of its fade to the end. Their
speakers are in none of the other sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile
from numpy.random import Generator, default_rng

from asdf.audio.vocoding.analysis import Array
from asdf.demo.synthetic_corpus import (
    ATTACKS,
    BONA_FIDE,
    MARK,
    Rendering,
    draw_renderings,
    make_demo_corpus,
    make_once,
)
from asdf.demo.voices import draw_speaker, record, speak
from asdf.facts import SAMPLE_RATE
from asdf.segments import COLUMN, Segment, Timed, format_spoofed, spoofed_parts_of, write_rttm
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

VERSION = 1
FOLDER = "partial"
# After those of the corpus's own sets: another key is another speaker.
_FIRST_KEY = 10
_FADE = 80  # 5 ms


@dataclass(frozen=True)
class PartialSet:
    """One of the sets of partially spoofed recordings.

    Attributes:
        pairs: Number of bona fide recordings per speaker, and of partially spoofed ones.
    """

    name: str
    attacks: tuple[str, ...]
    speakers: int
    pairs: int

    @property
    def size(self) -> int:
        """Number of recordings, of both classes."""
        return 2 * self.speakers * self.pairs


PARTIAL_SETS = (
    PartialSet("train", ("A01", "A02", "A03"), speakers=10, pairs=8),
    PartialSet("dev", ("A01", "A02", "A03"), speakers=4, pairs=6),
    PartialSet("eval", ("A01", "A02", "A03", "A04"), speakers=6, pairs=8),
)


def make_partial_demo(
    folder: Path, seed: int = 0, sets: tuple[PartialSet, ...] = PARTIAL_SETS
) -> None:
    """Make the partially spoofed recordings of the demo corpus in `folder`, unless they exist.

    Recordings are 1.6 to 3.2 s long, 16 kHz mono FLAC. The corpus itself is made first if it is
    missing. The same arguments give the same samples.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """

    def write(folder: Path) -> Iterator[None]:
        for index, partial_set in enumerate(sets):
            key = (seed, _FIRST_KEY + index)
            (folder / partial_set.name).mkdir(parents=True)
            ids = []
            columns: dict[str, list[str]] = {"speaker": [], "attack": [], COLUMN: []}
            durations_s = []
            letter = partial_set.name[0].upper()
            voices = (partial_set.attacks, partial_set.speakers, partial_set.pairs)
            renderings = draw_renderings(*voices, default_rng(key), paired=True)
            for number, recording in enumerate(renderings, 1):
                rng = default_rng([*key, recording.speaker, recording.number + 1])
                sound, spoofed = _speak_in_parts(recording, key, rng)
                samples = record(sound, rng)
                name = f"{partial_set.name}/DEMO_P{letter}_{number:04d}.flac"
                soundfile.write(folder / name, samples, SAMPLE_RATE, subtype="PCM_16")
                ids.append(f"{FOLDER}/{name}")
                durations_s.append(len(samples) / SAMPLE_RATE)
                columns["speaker"].append(f"DEMO_P{letter}{recording.speaker:02d}")
                columns["attack"].append(recording.attack)
                columns[COLUMN].append(format_spoofed(spoofed))
                yield
            labels = [int(attack == BONA_FIDE) for attack in columns["attack"]]
            trials = TrialList(ids, np.array(labels, np.int8), columns=columns)
            write_trials(folder / f"{partial_set.name}_list.tsv", trials)
            parts = zip(trials.ids, spoofed_parts_of(trials), durations_s, strict=True)
            recordings = {Path(name).stem: Timed(spoofed, end_s) for name, spoofed, end_s in parts}
            write_rttm(folder / f"{partial_set.name}.rttm", recordings)

    folder = Path(folder)
    if not (folder / MARK).is_file():
        make_demo_corpus(folder, seed)
    mark = ("ASDF demo corpus, partially spoofed", f"version {VERSION}", f"seed {seed}", *sets)
    count = sum(partial_set.size for partial_set in sets)
    name = "the partially spoofed recordings of the demo corpus"
    make_once(folder / FOLDER, name, mark, count, write)


def _speak_in_parts(
    recording: Rendering, key: tuple[int, int], rng: Generator
) -> tuple[Array, tuple[Segment, ...]]:
    """Return the sound before the recorder, (samples,), and its spoofed parts."""
    speaker = draw_speaker(default_rng([*key, recording.speaker]))
    sound = speak(speaker, rng.uniform(1.6, 3.2), rng)
    if recording.attack == BONA_FIDE:
        return sound, ()
    ranges = _draw_parts(len(sound), rng)
    vocoded = ATTACKS[recording.attack](sound, rng)
    ramp = (np.arange(_FADE) + 0.5) / _FADE
    for start, end in ranges:
        original, spoofed = sound[start:end], vocoded[start:end]
        level = np.sqrt(np.mean(original**2) / (np.mean(spoofed**2) + 1e-12))
        # There is no fade at the edges of the recording.
        weight = np.ones(end - start)
        if start > 0:
            weight[:_FADE] = ramp
        if end < len(sound):
            weight[-_FADE:] = ramp[::-1]
        sound[start:end] = (1 - weight) * original + weight * level * spoofed
    return sound, tuple(Segment(start / SAMPLE_RATE, end / SAMPLE_RATE) for start, end in ranges)


def _draw_parts(samples: int, rng: Generator) -> list[tuple[int, int]]:
    """Return one to three ascending, separate ranges of samples, of 0.15 to 0.8 s.

    A part may extend to the beginning or the end of the recording.
    """
    bounds = np.linspace(0, samples, int(rng.integers(1, 4)) + 1).astype(int)
    parts = []
    for low, high in pairwise(bounds.tolist()):
        # Parts that are neighbours need room for both fades, and for speech between them.
        longest = min(round(0.8 * SAMPLE_RATE), high - low - 4 * _FADE)
        length = int(rng.integers(round(0.15 * SAMPLE_RATE), longest + 1))
        start = int(rng.integers(low, high - 4 * _FADE - length + 1))
        # One part in eight starts with the recording.
        if low == 0 and rng.random() < 1 / 8:
            start = 0
        parts.append((start, start + length))
    return parts
