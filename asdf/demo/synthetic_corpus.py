"""A small synthetic corpus with the layout of ASVspoof 2019 LA.

Invariant: no utterance and no speaker is in two sets, a spoof resynthesises a rendering that is not
in any set, and the vocoder A04 is only in the evaluation set. Both classes pass the same recorder,
so level, duration, noise floor and edges do not reveal the class. Phase and regularity do: a
vocoder smears the sharp glottal closures (so waveforms of spoofs have lower peaks). A04 smears them
least and is harder than the seen vocoders, as unseen attacks are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from numpy.random import Generator, default_rng

from asdf.demo.articulation import draw_speaker
from asdf.demo.making import MARK, Making, make_once
from asdf.demo.vocoders import ATTACKS
from asdf.demo.voices import record, speak
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import write_text

__all__ = ["DEMO_SETS", "MARK", "DemoSet", "make_demo_corpus"]

VERSION = 2
BONA_FIDE = "-"
"""Value of the attack in a protocol if there is none."""


@dataclass(frozen=True)
class DemoSet:
    """One of the corpus's sets.

    Attributes:
        protocol: Suffix of its protocol's name.
        pairs: Number of bona fide utterances per speaker, and of spoofs with the same voice.
    """

    name: str
    protocol: str
    attacks: tuple[str, ...]
    speakers: int
    pairs: int

    @property
    def size(self) -> int:
        """Number of utterances, of both classes."""
        return 2 * self.speakers * self.pairs

    @property
    def letter(self) -> str:
        """T, D or E, as in the names of ASVspoof's utterances."""
        return self.name[0].upper()


DEMO_SETS = (
    DemoSet("train", "train.trn", ("A01", "A02", "A03"), speakers=10, pairs=14),
    DemoSet("dev", "dev.trl", ("A01", "A02", "A03"), speakers=4, pairs=10),
    DemoSet("eval", "eval.trl", ("A01", "A02", "A03", "A04"), speakers=8, pairs=10),
)


@dataclass(frozen=True)
class Rendering:
    """A recording to make: the speaker, a number, and the attack or BONA_FIDE."""

    speaker: int
    number: int
    attack: str

    @property
    def key(self) -> str:
        return "bonafide" if self.attack == BONA_FIDE else "spoof"

    @property
    def label(self) -> int:
        return int(self.attack == BONA_FIDE)


def make_demo_corpus(folder: Path, seed: int = 0, sets: tuple[DemoSet, ...] = DEMO_SETS) -> None:
    """Make the demo corpus in `folder`, unless it exists.

    Utterances are 1 to 2.6 s long, 16 kHz mono FLAC. An older version, or a corpus with another
    seed or size, is replaced. The same arguments give the same samples.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """
    count = sum(demo_set.size for demo_set in sets)
    # Everything that the corpus depends on.
    lines = ["ASDF demo corpus", f"version {VERSION}", f"seed {seed}", *map(str, sets)]
    mark = "\n".join(lines) + "\n"
    make_once(Path(folder), mark, Making("the demo corpus", count, partial(_make, seed, sets)))


def _make(seed: int, sets: tuple[DemoSet, ...], folder: Path) -> Iterator[None]:
    """Write the corpus; yield after each utterance."""
    protocols = folder / "LA" / "ASVspoof2019_LA_cm_protocols"
    protocols.mkdir(parents=True)
    for index, demo_set in enumerate(sets):
        audio = f"LA/ASVspoof2019_LA_{demo_set.name}/flac"
        (folder / audio).mkdir(parents=True)
        protocol = []
        listed = []
        trials = _draw_trials(demo_set, default_rng([seed, index]))
        for number, trial in enumerate(trials, start=1):
            name = f"DEMO_{demo_set.letter}_{number:04d}"
            path = f"{audio}/{name}.flac"
            samples = _say(trial, (seed, index))
            soundfile.write(folder / path, samples, SAMPLE_RATE, subtype="PCM_16")
            speaker = f"DEMO_{demo_set.letter}{trial.speaker:02d}"
            protocol.append(f"{speaker} {name} - {trial.attack} {trial.key}\n")
            listed.append(f"{path} {trial.label}\n")
            yield
        protocol_name = f"ASVspoof2019.LA.cm.{demo_set.protocol}.txt"
        write_text(protocols / protocol_name, "".join(protocol))
        write_text(folder / f"{demo_set.name}_list.txt", "".join(listed))


def _draw_trials(demo_set: DemoSet, rng: Generator) -> list[Rendering]:
    """Return all trials of a set in random order, so that names do not reveal labels."""
    bona_fide = []
    spoofs = []
    for count in range(demo_set.speakers * demo_set.pairs):
        speaker, number = divmod(count, demo_set.pairs)
        attack = demo_set.attacks[count % len(demo_set.attacks)]
        bona_fide.append(Rendering(speaker, number, BONA_FIDE))
        # A separate rendering number, so that no spoof has a bona fide twin.
        spoofs.append(Rendering(speaker, demo_set.pairs + number, attack))
    trials = bona_fide + spoofs
    order = rng.permutation(len(trials))
    return [trials[index] for index in order]


def _say(trial: Rendering, key: tuple[int, int]) -> np.ndarray:
    """Return the samples of a trial, int16 (samples,)."""
    speaker = draw_speaker(default_rng([*key, trial.speaker]))
    # + 1: numpy ignores zeros at the end of a seed, and would repeat the draws of the speaker.
    rng = default_rng([*key, trial.speaker, trial.number + 1])
    duration_s = rng.uniform(1.0, 2.6)
    sound = speak(speaker, duration_s, rng)
    if trial.attack != BONA_FIDE:
        vocoder = ATTACKS[trial.attack]
        sound = vocoder(sound, rng)
    return record(sound, rng)
