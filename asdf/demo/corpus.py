"""A small synthetic corpus, laid out like ASVspoof 2019 LA.

Invariant: the folder holds a whole corpus or does not exist. The corpus is made in another folder,
which is renamed at the very end; a mark in it says which version, seed and size it is, so that a
second call costs nothing.

No utterance and no speaker is in two sets, a spoof resynthesises a rendering that is in none, and
the vocoder A04 is in the evaluation set only. Both classes pass the same recorder: level, duration,
noise floor and edges say nothing. What separates them is phase and regularity: a vocoder smears the
sharp glottal closures (so waveforms of spoofs have lower peaks). A04 smears them least, and is
harder than the seen vocoders, as unseen attacks are.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.random import Generator, default_rng

from asdf.audio.vocoding.frames import Array
from asdf.demo.filters import filtered
from asdf.demo.speakers import draw_speaker
from asdf.demo.vocoders import ATTACKS
from asdf.demo.voices import speak
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.runs.progress import track

VERSION = 2
MARK = "DEMO_CORPUS.txt"
_ABANDONED_S = 3600
# What a protocol has for an attack where there is none.
_BONA_FIDE = "-"


@dataclass(frozen=True)
class DemoSet:
    """One of the corpus's sets.

    Attributes:
        protocol: the end of its protocol's name.
        pairs: bona fide utterances per speaker, and as many spoofs of the same voice.
    """

    name: str
    protocol: str
    attacks: tuple[str, ...]
    speakers: int
    pairs: int

    @property
    def size(self) -> int:
        """Its number of utterances, of both classes."""
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
class _Trial:
    speaker: int
    number: int
    attack: str

    @property
    def key(self) -> str:
        return "bonafide" if self.attack == _BONA_FIDE else "spoof"

    @property
    def label(self) -> int:
        return int(self.attack == _BONA_FIDE)


def make_demo_corpus(folder: Path, seed: int = 0, sets: tuple[DemoSet, ...] = DEMO_SETS) -> None:
    """Make the demo corpus in `folder`, unless it exists.

    Utterances are of 1 to 2.6 s, 16 kHz mono FLAC. An older version, or a corpus of another seed or
    size, is replaced. The same arguments give the same samples.

    Raises:
        AsdfError: `folder` holds something else, or cannot be written.
    """
    folder = Path(folder)
    mark = _describe(seed, sets)
    if _is_made(folder, mark):
        return
    try:
        workshop = _open_workshop(folder)
    except OSError as error:
        raise AsdfError(_advice(folder, error)) from error
    count = sum(demo_set.size for demo_set in sets)
    LOG.info("making the demo corpus, %d utterances, in %s", count, folder)
    try:
        new = workshop / "new"
        made = _make(new, seed, sets)
        for _ in track(made, count, "making the demo corpus", unit="utterances"):
            pass
        write_text(new / MARK, mark)
        if folder.exists():
            folder.rename(workshop / "old")
        new.rename(folder)
    except (OSError, soundfile.LibsndfileError) as error:
        # Another process that made the same corpus meanwhile has done this one's work.
        if not _is_made(folder, mark):
            raise AsdfError(_advice(folder, error)) from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _describe(seed: int, sets: tuple[DemoSet, ...]) -> str:
    """Return what the mark in a corpus says: all that it follows from."""
    lines = ["ASDF demo corpus", f"version {VERSION}", f"seed {seed}"]
    lines.extend(str(demo_set) for demo_set in sets)
    return "\n".join(lines) + "\n"


def _open_workshop(folder: Path) -> Path:
    """Make a folder next to `folder`, and remove those that killed processes left there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for workshop in folder.parent.glob(f".{folder.name}.*.part"):
        age_s = time.time() - workshop.stat().st_mtime
        # A younger workshop may be that of a process at work.
        if age_s > _ABANDONED_S:
            shutil.rmtree(workshop, ignore_errors=True)
    prefix = f".{folder.name}."
    return Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix, suffix=".part"))


def _is_made(folder: Path, mark: str) -> bool:
    mark_path = folder / MARK
    if mark_path.is_file():
        return mark_path.read_text(encoding="utf-8") == mark
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (folder.is_dir() and any(folder.iterdir())):
        raise AsdfError(
            f"{folder} is in the way of the demo corpus: it holds other files, which are left as "
            "they are. Name another folder, or move its content."
        )
    return False


def _advice(folder: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return (
        f"cannot make the demo corpus in {folder}: {reason}. Nothing half-made is left there. "
        "It needs about 20 MB: free some space or name a folder that can be written."
    )


def _make(folder: Path, seed: int, sets: tuple[DemoSet, ...]) -> Iterator[None]:
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


def _draw_trials(demo_set: DemoSet, rng: Generator) -> list[_Trial]:
    """Return all trials of a set in random order, so that a name says nothing about its label."""
    bona_fide = []
    spoofs = []
    for count in range(demo_set.speakers * demo_set.pairs):
        speaker, number = divmod(count, demo_set.pairs)
        attack = demo_set.attacks[count % len(demo_set.attacks)]
        bona_fide.append(_Trial(speaker, number, _BONA_FIDE))
        # Of a rendering with a number of its own, so that no spoof has its bona fide twin.
        spoofs.append(_Trial(speaker, demo_set.pairs + number, attack))
    trials = bona_fide + spoofs
    order = rng.permutation(len(trials))
    return [trials[index] for index in order]


def _say(trial: _Trial, key: tuple[int, int]) -> np.ndarray:
    """Return the samples of a trial, int16 (samples,)."""
    speaker = draw_speaker(default_rng([*key, trial.speaker]))
    rng = default_rng([*key, trial.speaker, trial.number + 1])
    duration_s = rng.uniform(1.0, 2.6)
    sound = speak(speaker, duration_s, rng)
    if trial.attack != _BONA_FIDE:
        vocoder = ATTACKS[trial.attack]
        sound = vocoder(sound, rng)
    return _record(sound, rng)


def _record(sound: Array, rng: Generator) -> np.ndarray:
    """Record a sound: either polarity, a rising response, a noise floor, a level, 16 bits."""
    polarity = rng.choice((-1.0, 1.0))
    previous = np.append(0.0, sound[:-1])
    sound = polarity * (sound - 0.97 * previous)
    sound = sound / (sound.std() + 1e-12)
    white = rng.standard_normal(len(sound))
    first = rng.uniform(-0.3, 0.8)
    second = rng.uniform(-0.2, 0.4)
    floor = filtered(white, np.array([1.0, first, second]))
    is_noisy = rng.random() < 0.1
    snr_db = rng.uniform(15, 25) if is_noisy else rng.uniform(32, 50)
    floor = floor / floor.std() * 10 ** (-snr_db / 20)
    sound = sound + floor
    level_db = -rng.uniform(26, 40)
    sound = sound * 10 ** (level_db / 20)
    whole: Array = np.rint(sound.clip(-1, 1) * 32767)
    return whole.astype(np.int16)
