"""Added noise and the reverberation of rooms, from recordings in folders of any layout.

Invariant: the order of the recordings depends only on the names below a folder, so a draw means the
same recording on every machine. The signal-to-noise ratio is that of the energies over the whole
example; if either is digital silence, the example stays unchanged. The direct sound of a room, its
response's highest peak, arrives at the time of the speech, and the energy is unchanged, so neither
position nor level reveals that a room was added.

If a folder contains a list in Kaldi's form, as in RIRS_NOISES (openslr.org/28, whose
real_rirs_isotropic_noises holds both kinds), the list selects impulse responses (`rir_list`) or
noises (`noise_list`), and recordings that only the other list could name are ignored. Without a
list, all recordings are used, except as impulse responses those with 'noise' in their names.

David Snyder, Guoguo Chen, Daniel Povey: MUSAN: a music, speech, and noise corpus. arXiv:1510.08484.
Tom Ko, Vijayaditya Peddinti, Daniel Povey, Michael L. Seltzer, Sanjeev Khudanpur: A study on data
augmentation of reverberant speech for robust speech recognition. ICASSP 2017.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import soundfile
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.augmentation.filtering import find_fast_size
from asdf.audio.augmentation.part import Part, PartSettings, draw_between, draw_item
from asdf.audio.reading import audio_length, read_audio
from asdf.audio.sample_rates import resample
from asdf.audio.speech import crop_start, repeat_to
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES, SAMPLE_RATE
from asdf.settings.sections import Audio

# Names of Kaldi's lists, and of the recordings in messages.
_LISTS = {"noise": "noise_list", "reverberation": "rir_list"}
_WORDS = {"noise": "recordings of noise", "reverberation": "room impulse responses"}


def find_material(part: str, folders: Iterable[str], base: Path) -> tuple[str, ...]:
    """Return the paths of the recordings for a part of the chain below `folders`.

    Args:
        part: Part that needs them, 'noise' or 'reverberation'.
        base: Folder that `folders` are relative to.

    Raises:
        UsageError: a folder is missing, cannot be listed, or has no recordings.
    """
    recordings: list[str] = []
    for name in folders:
        folder = base / name
        where = f"augmentation.{part}_folders names {folder}, "
        if not folder.is_dir():
            raise UsageError(
                f"{where}which does not exist. Unpack the corpus there, or correct the path: it is "
                "relative to paths.database_folder."
            )
        paths = sorted(
            _find_recordings(folder, part), key=lambda path: path.relative_to(folder).as_posix()
        )
        if not paths:
            raise UsageError(
                f"{where}which holds no {_WORDS[part]} (in WAV, FLAC or the like, links to folders "
                "are not followed). Name the folder that holds them."
            )
        recordings.extend(map(str, paths))
    return tuple(recordings)


def _find_recordings(folder: Path, part: str) -> Iterator[Path]:
    """Yield the recordings for `part` of the chain below `folder`, in any order.

    Hidden files, such as `._a.wav`, are skipped.
    """

    def refuse(error: OSError) -> None:
        # A skipped folder would change the draws for a user without permission to read it.
        raise UsageError(f"augmentation cannot list {error.filename}: {error.strerror}.")

    # For each visited folder, the names in the nearest list in it or above.
    listed: dict[str, frozenset[str] | None] = {}
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = None
        if _LISTS[part] in names:
            # Lines have the form `--rir-id 1 --room-id 1 path/name.wav`.
            text = Path(parent, _LISTS[part]).read_text(encoding="utf-8", errors="replace")
            lines = filter(None, map(str.split, text.splitlines()))
            chosen = frozenset(PurePosixPath(words[-1]).name for words in lines)
        elif any(name in names for name in _LISTS.values()):
            # There is only a list for the other part.
            chosen = frozenset()
        if chosen is None:
            # A list applies to all folders below it.
            chosen = listed.get(str(Path(parent).parent))
        listed[parent] = chosen
        for name in names:
            is_recording = Path(name).suffix.lower() in AUDIO_SUFFIXES
            # Without a list, the name decides.
            is_chosen = part == "noise" or "noise" not in name.lower()
            if chosen is not None:
                is_chosen = name in chosen
            if is_recording and is_chosen and not name.startswith("."):
                yield Path(parent, name)


class Noise(Part):
    """Recordings of noise, and the signal-to-noise ratios at which they are added.

    Raises:
        UsageError: as in `find_material`.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.noise_probability
        self.recordings = find_material("noise", section.noise_folders, base)
        self.min_snr_db = section.noise_snr_min_db
        self.max_snr_db = section.noise_snr_max_db
        self.audio = Audio(settings.audio.sample_rate)

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Add a part of a recording to `clip` (T,) float32: (T,) float32.

        Raises:
            AsdfError: the recording cannot be read.
        """
        noise, snr_db = self.draw(len(clip), rng)
        return mix(clip, noise, snr_db)

    def draw(self, samples: int, rng: Generator) -> tuple[np.ndarray, float]:
        """Draw a part (samples,) of a recording, repeated if it is shorter, and a ratio in dB.

        Order of the draws: the recording, the ratio, the part.

        Raises:
            AsdfError: the recording cannot be read.
        """
        path = draw_item(self.recordings, rng)
        snr_db = draw_between(self.min_snr_db, self.max_snr_db, rng)
        try:
            length = audio_length(path, self.audio)
            start = crop_start(length, samples, rng)
            noise = read_audio(path, start, min(length, samples), self.audio)
        except AsdfError as error:
            raise AsdfError(
                f"a recording of augmentation.noise_folders cannot be used: {error}"
            ) from None
        return repeat_to(noise, samples), snr_db

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"noise ({len(self.recordings)} recordings)"


def mix(waveform: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Add `noise` (T,), scaled to `snr_db` below it, to `waveform` (T,): (T,) float32."""
    exact_speech = waveform.astype(np.float64)
    exact_noise = noise.astype(np.float64)
    energy = exact_speech @ exact_speech
    noise_energy = exact_noise @ exact_noise
    if energy == 0 or noise_energy == 0:
        return waveform
    ratio = 10 ** (snr_db / 20)
    level = np.sqrt(energy / noise_energy) / ratio
    mixed = exact_speech + level * exact_noise
    return mixed.astype(np.float32)


class Reverberation(Part):
    """Convolution with impulse responses of rooms.

    Raises:
        UsageError: as in `find_material`.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.reverberation_probability
        self.responses = find_material("reverberation", section.reverberation_folders, base)
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Put `clip` (T,) float32 into a drawn room: (T,) float32.

        Raises:
            AsdfError: the response cannot be read, or is silent.
        """
        return reverberate(clip, self.draw(rng))

    def draw(self, rng: Generator) -> np.ndarray:
        """Draw an impulse response: (N,) float32.

        Raises:
            AsdfError: the response cannot be read, or is silent.
        """
        return read_response(draw_item(self.responses, rng), self.rate)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"reverberation ({len(self.responses)} impulse responses)"


def read_response(path: str, to: int = SAMPLE_RATE) -> np.ndarray:
    """Read an impulse response at `to` Hz: (T,) float32.

    The first of several channels is used, since the mean over the microphones of an array would be
    a comb filter rather than a room.

    Raises:
        AsdfError: the response cannot be read, or is silent.
    """
    try:
        # For its messages on files that are missing or truncated.
        audio_length(path)
        channels, rate = soundfile.read(path, dtype="float32", always_2d=True)
        first = np.ascontiguousarray(channels[:, 0])
        if not np.isfinite(first).all() or not first.any():
            raise AsdfError(f"{path} is silent, or holds samples that are not finite: remove it.")
    except (AsdfError, soundfile.LibsndfileError) as error:
        raise AsdfError(
            f"an impulse response of augmentation.reverberation_folders cannot be used: {error}"
        ) from None
    return resample(first, rate, to)


def reverberate(waveform: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Put `waveform` (T,) into the room of `response` (N,), which is not all 0: (T,) float32."""
    energy = np.square(waveform, dtype=np.float64).sum()
    if energy == 0:
        return waveform
    length = len(waveform)
    direct = int(np.abs(response).argmax())
    points = find_fast_size(length + len(response) - 1)
    spectrum = rfft(waveform, points) * rfft(response, points)
    convolved = irfft(spectrum, points)
    wet = convolved[direct : direct + length]
    wet = wet.astype(np.float64)
    level = np.sqrt(energy / (wet @ wet))
    scaled: np.ndarray = level * wet
    return scaled.astype(np.float32)
