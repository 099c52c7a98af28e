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
from asdf.demo.making import MARK, make_once
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
    mark = ("ASDF demo corpus", f"version {VERSION}", f"seed {seed}", *sets)
    count = sum(demo_set.size for demo_set in sets)
    make_once(Path(folder), "the demo corpus", mark, count, partial(_make, seed, sets))


def _make(seed: int, sets: tuple[DemoSet, ...], folder: Path) -> Iterator[None]:
    """Write the corpus; yield after each utterance."""
    protocols = folder / "LA" / "ASVspoof2019_LA_cm_protocols"
    protocols.mkdir(parents=True)
    for index, demo_set in enumerate(sets):
        audio = f"LA/ASVspoof2019_LA_{demo_set.name}/flac"
        (folder / audio).mkdir(parents=True)
        protocol = []
        listed = []
        rng = default_rng([seed, index])
        trials = draw_renderings(demo_set.attacks, demo_set.speakers, demo_set.pairs, rng)
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


def draw_renderings(
    attacks: tuple[str, ...], speakers: int, pairs: int, rng: Generator, *, paired: bool = False
) -> list[Rendering]:
    """Return all recordings of a set in random order, so that names do not reveal labels.

    Args:
        paired: Whether the order is drawn of pairs, or of all bona fide recordings, then spoofs.
    """
    made = []
    for count in range(speakers * pairs):
        speaker, number = divmod(count, pairs)
        made.append(Rendering(speaker, number, BONA_FIDE))
        # A separate rendering number, so that no spoof has a bona fide twin.
        made.append(Rendering(speaker, pairs + number, attacks[count % len(attacks)]))
    if not paired:
        made = made[::2] + made[1::2]
    return [made[index] for index in rng.permutation(len(made))]


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
