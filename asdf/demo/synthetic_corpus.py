"""A small synthetic corpus with the layout of ASVspoof 2019 LA.

Invariant: no utterance and no speaker is in two sets, a spoof resynthesises a rendering that is not
in any set, and the vocoder A04 is only in the evaluation set. Both classes pass the same recorder,
so level, duration, noise floor and edges do not reveal the class. Phase and regularity do: a
vocoder smears the sharp glottal closures (so waveforms of spoofs have lower peaks). A04 smears them
least and is harder than the seen vocoders, as unseen attacks are.

Each vocoder analyses a voice into what real vocoders preserve (a smooth envelope and F0) and
resynthesises it without what they lose: the phases, the irregular cycles, the fine structure of
breath. Their constants are part of the corpus: changing them would change its samples.

A corpus is made in a temporary folder, which is renamed at the end: the folder contains a complete
corpus or does not exist. A mark in it states everything that the corpus depends on, so that a
second call is cheap.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
from numpy.random import Generator, default_rng

from asdf.audio.vocoding.analysis import (
    BINS,
    FFT,
    Array,
    Excitation,
    analyse,
    draw_noise,
    excite,
    mel_filters,
    regular_wave,
)
from asdf.audio.vocoding.classical import excite_envelope, griffin_lim, predict_and_excite
from asdf.demo.voices import draw_speaker, record, speak
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import write_text
from asdf.runs.log import LOG, track

VERSION = 2
BONA_FIDE = "-"
"""Value of the attack in a protocol if there is none."""

MARK = "DEMO_CORPUS.txt"
_ABANDONED_S = 3600


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


def make_demo_corpus(folder: Path, seed: int = 0, sets: tuple[DemoSet, ...] = DEMO_SETS) -> None:
    """Make the demo corpus in `folder`, unless it exists.

    Utterances are 1 to 2.6 s long, 16 kHz mono FLAC. An older version, or a corpus with another
    seed or size, is replaced. The same arguments give the same samples.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """

    def write(folder: Path) -> Iterator[None]:
        protocols = folder / "LA" / "ASVspoof2019_LA_cm_protocols"
        protocols.mkdir(parents=True)
        for index, demo_set in enumerate(sets):
            key = (seed, index)
            audio = f"LA/ASVspoof2019_LA_{demo_set.name}/flac"
            (folder / audio).mkdir(parents=True)
            protocol = []
            listed = []
            voices = (demo_set.attacks, demo_set.speakers, demo_set.pairs)
            for number, trial in enumerate(draw_renderings(*voices, default_rng(key)), start=1):
                speaker = draw_speaker(default_rng([*key, trial.speaker]))
                # + 1: numpy ignores zeros at the end of a seed, and would repeat the speaker's
                # draws.
                rng = default_rng([*key, trial.speaker, trial.number + 1])
                sound = speak(speaker, rng.uniform(1.0, 2.6), rng)
                is_bona_fide = trial.attack == BONA_FIDE
                if not is_bona_fide:
                    sound = ATTACKS[trial.attack](sound, rng)
                name = f"DEMO_{demo_set.letter}_{number:04d}"
                path = f"{audio}/{name}.flac"
                soundfile.write(folder / path, record(sound, rng), SAMPLE_RATE, subtype="PCM_16")
                speaker_name = f"DEMO_{demo_set.letter}{trial.speaker:02d}"
                word = "bonafide" if is_bona_fide else "spoof"
                protocol.append(f"{speaker_name} {name} - {trial.attack} {word}\n")
                listed.append(f"{path} {int(is_bona_fide)}\n")
                yield
            protocol_name = f"ASVspoof2019.LA.cm.{demo_set.protocol}.txt"
            write_text(protocols / protocol_name, "".join(protocol))
            write_text(folder / f"{demo_set.name}_list.txt", "".join(listed))

    mark = ("ASDF demo corpus", f"version {VERSION}", f"seed {seed}", *sets)
    count = sum(demo_set.size for demo_set in sets)
    make_once(Path(folder), "the demo corpus", mark, count, write)


@dataclass(frozen=True)
class Rendering:
    """A recording to make: the speaker, a number, and the attack or BONA_FIDE."""

    speaker: int
    number: int
    attack: str


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


def harmonic_noise(voice: Array, rng: Generator) -> Array:
    """Harmonics of fixed dispersed phases below 4 kHz and noise above, in mel bands.

    After Stylianou, 2001.
    """
    analysis = analyse(voice)
    mel = mel_filters(32, BINS)
    per_bin = mel / (mel.sum(0) + 1e-9)
    from_bands = per_bin / mel.sum(1, keepdims=True)
    envelope = np.sqrt(analysis.power @ mel.T @ from_bands)
    below_4_khz = np.arange(BINS) < 4000 / SAMPLE_RATE * FFT
    strength = analysis.voiced[:, None] * below_4_khz
    wave = regular_wave(analysis.f0_hz, len(voice), -rng.uniform(0.1, 0.4))
    noise = draw_noise(voice, rng)
    # Square roots, so that the powers of both add up to that of the envelope.
    harmonics = Excitation(envelope * np.sqrt(strength), wave)
    hiss = Excitation(envelope * np.sqrt(1 - strength), noise)
    return excite(voice, harmonics, hiss)


ATTACKS: dict[str, Callable[[Array, Generator], Array]] = {
    # Linear prediction with a regular pulse train or noise, never both.
    "A01": partial(predict_and_excite, order=20),
    # A mel spectrogram turned back into a waveform by a few rounds of phase estimation.
    "A02": partial(griffin_lim, bands=64, rounds=8),
    "A03": harmonic_noise,
    # Minimum-phase cepstral envelope with pulses that fade into noise at higher frequencies.
    "A04": partial(excite_envelope, coefficients=41),
}


def make_once(
    folder: Path,
    name: str,
    mark: Sequence[object],
    count: int,
    write: Callable[[Path], Iterator[None]],
) -> None:
    """Make a corpus in `folder`, unless it exists; a corpus with another mark is replaced.

    Args:
        name: Name of the corpus in messages.
        mark: Lines with everything that the corpus depends on.
        count: Number of utterances.
        write: Function that writes it into a folder and yields after each utterance.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """
    marked = "".join(f"{line}\n" for line in mark)
    if _is_made(folder, marked, name):
        return
    workshop = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f".{folder.name}.*.part"):
            # Left by a killed process; a recent one may belong to a running process.
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
        workshop = Path(tempfile.mkdtemp(".part", f".{folder.name}.", folder.parent))
        LOG.info("making %s, %d utterances, in %s", name, count, folder)
        new = workshop / "new"
        for _ in track(write(new), count, f"making {name}", unit="utterances"):
            pass
        # Last, since the mark states that everything is there.
        write_text(new / MARK, marked)
        if folder.exists():
            # A folder cannot be renamed onto one that has content.
            folder.rename(workshop / "old")
        new.rename(folder)
    except (OSError, soundfile.LibsndfileError) as error:
        # Another process may have made the same corpus meanwhile.
        if not _is_made(folder, marked, name):
            reason = getattr(error, "strerror", None) or error
            raise AsdfError(
                f"cannot make {name} in {folder}: {reason}. Nothing incomplete is left there. It "
                "needs about 20 MB: free some space or name a folder that can be written."
            ) from error
    finally:
        if workshop is not None:
            shutil.rmtree(workshop, ignore_errors=True)


def _is_made(folder: Path, mark: str, name: str) -> bool:
    mark_path = folder / MARK
    if mark_path.is_file():
        return mark_path.read_text(encoding="utf-8") == mark
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AsdfError(
            f"{folder} is in the way of {name}: it holds other files, which are left as they are. "
            "Name another folder, or move its content."
        )
    return False
