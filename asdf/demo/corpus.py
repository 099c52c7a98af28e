"""A small synthetic corpus, laid out like ASVspoof 2019 LA.

Invariant: the folder holds a whole corpus or does not exist. The corpus is made in another folder,
which is renamed at the very end; a mark in it says which version, seed and size it is, so that a
second call costs nothing.

No utterance and no speaker is in two sets, a spoof resynthesises a rendering that is in none, and the
vocoder A04 is in the evaluation set only. Both classes pass the same recorder: level, duration, noise
floor and edges say nothing. What separates them is phase and regularity: a vocoder smears the sharp
glottal closures (so waveforms of spoofs have lower peaks). A04 smears them least, and is harder than
the seen vocoders, as unseen attacks are.
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

from asdf.demo.filters import SAMPLE_RATE, Array, filtered
from asdf.demo.vocoders import ATTACKS
from asdf.demo.voices import draw_speaker, speak
from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.runs.progress import track

VERSION = 2
MARK = "DEMO_CORPUS.txt"
_ABANDONED_S = 3600


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
    attack: str  # "-" for bona fide

    @property
    def key(self) -> str:
        return "bonafide" if self.attack == "-" else "spoof"

    @property
    def label(self) -> int:
        return 1 if self.attack == "-" else 0


def make_demo_corpus(folder: Path, seed: int = 0, sets: tuple[DemoSet, ...] = DEMO_SETS) -> None:
    """Make the demo corpus in `folder`, unless it exists: 16 kHz mono FLAC, 1 to 2.6 s per utterance.

    An older version, or one of another seed or size, is replaced. The same arguments give the same
    samples.

    Raises:
        AsdfError: `folder` holds something else, or cannot be written.
    """
    folder = Path(folder)
    mark = f"ASDF demo corpus\nversion {VERSION}\nseed {seed}\n"
    mark += "".join(f"{part}\n" for part in sets)
    if _is_made(folder, mark):
        return
    try:
        workshop = _open_workshop(folder)
    except OSError as error:
        raise AsdfError(_advice(folder, error)) from error
    count = sum(2 * part.speakers * part.pairs for part in sets)
    LOG.info("making the demo corpus, %d utterances, in %s", count, folder)
    try:
        new = workshop / "new"
        for _ in track(_make(new, seed, sets), count, "making the demo corpus", unit="utterances"):
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


def _open_workshop(folder: Path) -> Path:
    """Make a folder next to `folder`, and remove those that killed processes left there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in folder.parent.glob(f".{folder.name}.*.part"):
        if time.time() - abandoned.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(abandoned, ignore_errors=True)
    name = tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part")
    return Path(name)


def _is_made(folder: Path, mark: str) -> bool:
    if (folder / MARK).is_file():
        return (folder / MARK).read_text(encoding="utf-8") == mark
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AsdfError(
            f"{folder} is in the way of the demo corpus: it holds other files, which are left as they "
            "are. Name another folder, or move its content."
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
    for index, part in enumerate(sets):
        audio = f"LA/ASVspoof2019_LA_{part.name}/flac"
        (folder / audio).mkdir(parents=True)
        protocol = []
        listed = []
        trials = _trials(part, np.random.default_rng([seed, index]))
        for number, trial in enumerate(trials, start=1):
            name = f"DEMO_{part.letter}_{number:04d}"
            samples = _utterance(trial, (seed, index))
            soundfile.write(folder / audio / f"{name}.flac", samples, SAMPLE_RATE, subtype="PCM_16")
            speaker = f"DEMO_{part.letter}{trial.speaker:02d}"
            protocol.append(f"{speaker} {name} - {trial.attack} {trial.key}\n")
            listed.append(f"{audio}/{name}.flac {trial.label}\n")
            yield
        write_text(protocols / f"ASVspoof2019.LA.cm.{part.protocol}.txt", "".join(protocol))
        write_text(folder / f"{part.name}_list.txt", "".join(listed))


def _trials(part: DemoSet, rng: np.random.Generator) -> list[_Trial]:
    """Return all trials of a set in random order, so that a name says nothing about its label."""
    bona_fide = []
    spoofs = []
    for count in range(part.speakers * part.pairs):
        speaker, number = divmod(count, part.pairs)
        attack = part.attacks[count % len(part.attacks)]
        bona_fide.append(_Trial(speaker, number, "-"))
        spoofs.append(_Trial(speaker, part.pairs + number, attack))
    trials = bona_fide + spoofs
    return [trials[i] for i in rng.permutation(len(trials))]


def _utterance(trial: _Trial, key: tuple[int, int]) -> np.ndarray:
    """Return the samples of one trial, int16 (samples,)."""
    speaker = draw_speaker(np.random.default_rng([*key, trial.speaker]))
    rng = np.random.default_rng([*key, trial.speaker, trial.number + 1])
    sound = speak(speaker, rng.uniform(1.0, 2.6), rng)
    if trial.attack != "-":
        sound = ATTACKS[trial.attack](sound, rng)
    return _record(sound, rng)


def _record(sound: Array, rng: np.random.Generator) -> np.ndarray:
    """Record a sound: either polarity, a rising response, a noise floor, a level, 16 bits."""
    polarity = rng.choice((-1.0, 1.0))
    sound = polarity * (sound - 0.97 * np.append(0.0, sound[:-1]))
    sound = sound / (sound.std() + 1e-12)
    white = rng.standard_normal(len(sound))
    colour = np.array([1.0, rng.uniform(-0.3, 0.8), rng.uniform(-0.2, 0.4)])
    floor = filtered(white, colour)
    is_noisy = rng.random() < 0.1
    snr_db = rng.uniform(15, 25) if is_noisy else rng.uniform(32, 50)
    sound = sound + floor / floor.std() * 10 ** (-snr_db / 20)
    level = 10 ** (-rng.uniform(26, 40) / 20)
    return np.rint((sound * level).clip(-1, 1) * 32767).astype(np.int16)
