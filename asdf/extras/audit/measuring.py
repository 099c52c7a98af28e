"""Measurements of a recording for an audit: features of time, level, spectrum and file.

Invariant: a recording of any length needs a bounded amount of memory: its first minute and its last
ten seconds are measured. An unreadable recording is a result, and does not end the audit.

A fingerprint recognises a sound under another name, level or codec. The word of a frame has a bit
per pair of neighbouring bands: whether the difference of their energies increased since the
previous frame (Haitsma and Kalker, "A highly robust audio fingerprinting system", ISMIR 2002). It
has 16 bits for frames of 256 ms every 16 ms, over the first eight seconds of sound. Two recordings
count as the same only if most bits agree at one offset for at least a second, which is not the case
for recordings of the same words by one voice.

Features of an audit: their meaning, and advice if they reveal labels.

Invariant: a feature does not require understanding speech. Each is one number or word per
recording, so a detector that uses it alone shows how much of the task it solves.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import Floats
from asdf.audio import audio_length, read_audio
from asdf.audio.recording_files import open_recording
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.pool import worker_pool


@dataclass(frozen=True)
class Feature:
    """A feature of recordings.

    Attributes:
        key: Key in results.
        name: Display name.
        advice: Advice on how to prevent the shortcut.
        settings: Lines of a config that follow the advice; '' if there are none.
        unit: Unit of its numbers; '' for words and plain numbers.
        is_word: Whether values are words.
        by_recording: Whether its detector also learns from recordings of the same speakers, because
            other speakers have none of its values.
        is_heard: Whether a network can hear it, which it cannot for names and tags.
    """

    key: str
    name: str
    advice: str
    settings: str = ""
    unit: str = ""
    is_word: bool = False
    by_recording: bool = False
    is_heard: bool = True


# Advice, with the lines of a config that follow it.
_CUT = (
    "Cut clips of one length, or balance the lengths of both classes.",
    "network.clip_position = 'random'",
)
_TRIM = ("Trim the silence around speech in all sets.", "sad.mode = 'endpoint'")
_PAUSES = ("Cut the silence between words, or balance it.", "sad.mode = 'on'")
_NORMALISE = "front_end.normalize_waveforms = True"
_LEVEL = ("Match the loudness of both classes, or scale every waveform.", _NORMALISE)
_NOISE = (
    "Add noise to both classes, or record both in the same rooms.",
    "augmentation.chain = ('noise',)",
)
_CLIPPING = "Take recordings of lower gain, or clip both classes alike."
_ZEROS = ("Add noise of the last bit to both classes, or trim the silence.", _TRIM[1])
_RECODE = (
    "Bring both classes through the same chain: the same sampling rate, codec and number format."
)
_CODEC = (_RECODE, "augmentation.chain = ('codec', 'bandwidth')")
_RENAME = (
    "No network hears names. Give both classes one scheme of names, in mixed order, if programs "
    "or people see them."
)
_SPEAKER = (
    "Record genuine speech of the voices that are spoofed, or leave speakers out "
    "(recipe.leave_out_speakers)."
)
_TEXT = "Let both classes say the same texts."
# Whether other speakers have values of a feature, and whether a network hears it.
_OF_SPEAKERS: dict[str, Any] = {"is_word": True, "by_recording": True}
_OF_NAMES: dict[str, Any] = {"by_recording": True, "is_heard": False}

_ROWS = (
    Feature("duration", "duration", *_CUT, "s"),
    Feature("leading_silence", "leading silence", *_TRIM, "s"),
    Feature("trailing_silence", "trailing silence", *_TRIM, "s"),
    Feature("pauses", "share of pauses", *_PAUSES),
    Feature("level", "level of speech", *_LEVEL, "dB"),
    Feature("peak", "peak level", *_LEVEL, "dB"),
    Feature("noise_floor", "noise floor below speech", *_NOISE, "dB"),
    Feature("clipping", "share of clipped samples", _CLIPPING),
    Feature("offset", "DC offset", "Subtract the mean of each recording.", _NORMALISE),
    Feature("zeros", "share of digital silence", *_ZEROS),
    Feature("bandwidth", "bandwidth", *_CODEC, "Hz"),
    Feature("holes", "spectral holes", *_CODEC),
    Feature("rate_history", "sampling rate that the spectrum ends at", *_CODEC, is_word=True),
    Feature("sample_rate", "sampling rate of the file", _RECODE, is_word=True),
    Feature("format", "format of the file", _RECODE, is_word=True),
    Feature("channels", "channels", _RECODE, is_word=True),
    Feature("bits", "bits in use", _RECODE, is_word=True),
    Feature("byte_rate", "bytes per second", _RECODE, unit="B/s"),
    Feature(
        "tags",
        "tags of the file",
        "Write the files again without tags.",
        is_word=True,
        is_heard=False,
    ),
    Feature("folder", "folder", _RENAME, is_word=True, **_OF_NAMES),
    Feature("pattern", "pattern of the name", _RENAME, is_word=True, **_OF_NAMES),
    Feature("number", "number in the name", _RENAME, **_OF_NAMES),
    Feature("order", "position in the list", _RENAME, **_OF_NAMES),
    Feature("speaker", "speaker", _SPEAKER, **_OF_SPEAKERS),
    Feature("text", "text", _TEXT, **_OF_SPEAKERS),
)
FEATURES = {feature.key: feature for feature in _ROWS}

# Columns that restate the label, or state the part of a corpus that a trial belongs to.
NOT_FEATURES = frozenset({"attack", "label", "key", "split", "subset", "spoofed_s", "source"})


def column_feature(name: str) -> Feature:
    """Return the feature of another column of a list, such as the codec or the language."""
    advice = f"Balance the values of {name} over both classes."
    return FEATURES.get(name) or Feature(name, name, advice, **_OF_SPEAKERS)


ALL_TOGETHER = Feature(
    "all",
    "all that a network hears",
    "Record, level and code both classes alike: together, features distinguish them.",
)


_HEAD_S = 60
_TAIL_S = 10
_FRAME_S = 0.01
# Level of silence below the loudest frame.
_SILENCE_DB = 40.0
_FLOOR = 1e-12
_FULL_SCALE = 0.999
_FFT_S = 0.032
_NATIVE_S = 30
# Level below its peak at which a spectrum ends.
_BAND_DB = 75.0
# A cell of a spectrum below any noise level, which a codec removed.
_HOLE_DB = -115.0
_RATES = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
# Minimum proportion of half of a sampling rate that filters pass.
_FILTER_SHARE = 0.9
_MANTISSA_BITS = 24
_SILENT = 1e-3

# Of fingerprints.
_PRINT_FRAME = 4096
_HOP = 256
_BANDS = 17
_LOWEST_HZ = 300
_HIGHEST_HZ = 3000
_SECONDS = 8
_QUIET = 1e-2
_LEAST_ENERGY = 1e-9
# Words that more recordings share are from silence or tones, and not informative.
_COMMON = 40
_HITS = 4
_LEAST_FRAMES = 64  # about a second
# Unrelated recordings differ in half of the bits; the limit of Haitsma and Kalker is 0.35, for
# frames compared over three seconds.
_LARGEST_SHARE = 0.28


@dataclass(frozen=True)
class Measured:
    """The measurements of a recording.

    Attributes:
        values: Values of features by key: numbers or words.
        digest: SHA-256 of its samples at 16 kHz, as far as they were read, and of its length.
        words: Fingerprint of its first seconds, uint16 in base64.
        problem: Reason why it cannot be used, or its defect; '' if there is none.
        is_read: Whether it could be read.
    """

    values: dict[str, float | str] = field(default_factory=dict)
    digest: str = ""
    words: str = ""
    problem: str = ""
    is_read: bool = True

    @property
    def fingerprint(self) -> np.ndarray:
        """The fingerprint, (frames,) uint16."""
        return np.frombuffer(base64.b64decode(self.words), "<u2")


def measure(path: str) -> Measured:
    """Measure a recording; problems are stated in the result."""
    try:
        length = audio_length(Path(path))
        head = read_audio(Path(path), 0, min(length, _HEAD_S * SAMPLE_RATE))
        tail = head
        if length > len(head):
            tail = read_audio(Path(path), max(0, length - _TAIL_S * SAMPLE_RATE))
        of_file = _file_and_spectrum(Path(path), length / SAMPLE_RATE)
    except AsdfError as error:
        return Measured(problem=str(error), is_read=False)
    levels = _frame_levels(head)
    last_levels = _frame_levels(tail)
    loudest = float(levels.max())
    loud = np.flatnonzero(levels > loudest - _SILENCE_DB)
    last_loud = np.flatnonzero(last_levels > max(loudest, last_levels.max()) - _SILENCE_DB)
    inside = levels[loud[0] : loud[-1] + 1]
    speech = inside[inside > loudest - _SILENCE_DB]
    level = float(_decibels(np.mean(10 ** (speech / 10))))
    behind = len(last_levels) - 1 - last_loud[-1] if len(last_loud) else len(last_levels)
    magnitudes = np.abs(head)
    peak = float(magnitudes.max())
    values = {
        "duration": length / SAMPLE_RATE,
        "leading_silence": float(loud[0]) * _FRAME_S,
        "trailing_silence": float(behind) * _FRAME_S,
        "pauses": 1 - len(speech) / len(inside),
        "level": level,
        "peak": float(20 * np.log10(max(peak, 1e-6))),
        "noise_floor": float(np.quantile(levels, 0.05)) - level,
        "clipping": float(np.mean(magnitudes >= _FULL_SCALE * max(peak, 0.5))) if peak else 0.0,
        "offset": float(head.mean(dtype=np.float64)),
        "zeros": float(np.mean(head == 0)),
        **of_file,
    }
    # With the length, since the middle of a long recording is not read.
    digest = hashlib.sha256(head.tobytes() + tail.tobytes() + str(length).encode()).hexdigest()
    problem = ""
    if peak < _SILENT:
        problem = "it is silent: no sample is louder than -60 dB of full scale."
    elif length < SAMPLE_RATE // 2:
        problem = f"it is short: {length / SAMPLE_RATE:.2f} s."
    words = base64.b64encode(fingerprint(head).astype("<u2").tobytes()).decode()
    return Measured(values, digest, words, problem)


def _decibels(power: Any) -> Any:
    return 10 * np.log10(np.maximum(power, _FLOOR))


def _frame_levels(waveform: Floats) -> Any:
    """Return the level of frames of 10 ms, in dB of full scale; the last may be shorter."""
    frame = round(_FRAME_S * SAMPLE_RATE)
    starts = np.arange(0, len(waveform), frame)
    counts = np.diff(starts, append=len(waveform))
    # An offset of the converter is not a sound.
    centred = waveform.astype(np.float64) - waveform.mean(dtype=np.float64)
    return _decibels(np.add.reduceat(centred**2, starts) / counts)


def _file_and_spectrum(path: Path, seconds: float) -> dict[str, float | str]:
    """Return features of the file: its format, and its spectrum at its own sampling rate."""
    with open_recording(path) as file:
        rate = file.samplerate
        samples = file.read(_NATIVE_S * rate, dtype="float32", always_2d=True)
        tags: dict[str, str] = getattr(file, "copy_metadata", dict)()
        values: dict[str, float | str] = {
            "sample_rate": f"{rate} Hz",
            "format": f"{file.format} {file.subtype}",
            "channels": str(file.channels),
            "tags": ", ".join(sorted(key for key, text in tags.items() if text)) or "none",
        }
        if file.subtype.startswith("PCM_"):
            # Fewer bits than the file's if the lowest are all zero.
            integers = np.ldexp(samples.ravel(), _MANTISSA_BITS - 1).astype(np.int32)
            used = int(np.bitwise_or.reduce(integers)) if integers.size else 0
            # used & -used is the lowest bit that any sample sets.
            unused = (used & -used).bit_length() - 1
            values["bits"] = str(_MANTISSA_BITS - unused if used else 0)
    # A path that continues into an archive cannot be asked for its size.
    if path.is_file():
        values["byte_rate"] = path.stat().st_size / max(seconds, _FRAME_S)
    waveform = samples.mean(axis=1)
    size = 2 ** round(np.log2(_FFT_S * rate))
    if len(waveform) < size:
        return values
    frames = np.lib.stride_tricks.sliding_window_view(waveform, size)[:: size // 2]
    cells = _decibels(np.abs(np.fft.rfft(frames * np.hanning(size), axis=1)) ** 2 / size)
    levels = cells.max(axis=1)
    # Silence has no spectrum.
    if levels.max() < _HOLE_DB:
        return values
    speech = cells[levels > levels.max() - _SILENCE_DB]
    mean = _decibels(np.mean(10 ** (speech / 10), axis=0))
    reached = np.flatnonzero(mean > mean.max() - _BAND_DB)
    band = float((reached[-1] + 1) / len(mean) * rate / 2)
    values |= {"bandwidth": band, "holes": float(np.mean(speech[:, : reached[-1] + 1] < _HOLE_DB))}
    # The standard sampling rate whose spectrum ends there, if it is lower than that of the file.
    values["rate_history"] = "that of the file" if band > _FILTER_SHARE * rate / 2 else "none"
    for known in _RATES:
        if known < rate and _FILTER_SHARE * known / 2 <= band <= 1.02 * known / 2:
            values["rate_history"] = f"{known} Hz"
            break
    return values


def measure_all(paths: Iterable[str], workers: int) -> Iterator[tuple[int, Measured]]:
    """Measure recordings in `workers` processes (0: in this one); yield each with its index."""
    with worker_pool(workers) as compute:
        yield from enumerate(compute(measure, list(paths)))


def fingerprint(waveform: Floats) -> np.ndarray:
    """Return the words of a waveform (T,) at 16 kHz: (frames,) uint16; empty if it is short."""
    magnitudes = np.abs(waveform)
    peak = float(magnitudes.max())
    nothing = np.zeros(0, np.uint16)
    if peak < _QUIET**3:
        return nothing
    # From the first sound on: copies may have been cut at the start.
    first = int(np.argmax(magnitudes > _QUIET * peak))
    sound = waveform[first : first + _SECONDS * SAMPLE_RATE]
    if len(sound) < _PRINT_FRAME + _HOP:
        return nothing
    frames = np.lib.stride_tricks.sliding_window_view(sound, _PRINT_FRAME)[::_HOP]
    window = np.hanning(_PRINT_FRAME).astype(np.float32)
    spectra = np.fft.rfft(frames * window, axis=1)
    power = np.abs(spectra) ** 2
    edges_hz = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _BANDS + 1)
    edges = (edges_hz * _PRINT_FRAME / SAMPLE_RATE).astype(int)
    energies = np.add.reduceat(power, edges[:-1], axis=1)
    # Digital silence has no energy, and no logarithm.
    differences = np.diff(np.log(energies + _LEAST_ENERGY), axis=1)
    bits = np.diff(differences, axis=0) > 0
    weights = 1 << np.arange(_BANDS - 1)
    words: np.ndarray = (bits * weights).sum(axis=1).astype(np.uint16)
    return words


def same_recordings(prints: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Return the index pairs of recordings that are the same sound, in order."""
    keys = [np.zeros(0, np.uint32)]
    recordings = [np.zeros(0, np.intp)]
    positions = [np.zeros(0, np.intp)]
    for index, words in enumerate(prints):
        # Two consecutive words form a key, because 16 bits alone are shared too often.
        # 32 bits before the shift, which would push all bits out of 16.
        key = words[:-1].astype(np.uint32) << 16 | words[1:]
        keys.append(key)
        recordings.append(np.full(len(key), index))
        positions.append(np.arange(len(key)))
    all_keys = np.concatenate(keys)
    all_recordings = np.concatenate(recordings)
    all_positions = np.concatenate(positions)
    # Stable, so that a pair always has its recordings in the order of the list.
    order = np.argsort(all_keys, kind="stable")
    bounds = np.flatnonzero(np.diff(all_keys[order])) + 1
    # Numbers of equal words of each pair, by the frames that the second one starts later.
    hits: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for group in np.split(order, bounds):
        if 1 < len(group) <= _COMMON:
            places = zip(all_recordings[group].tolist(), all_positions[group].tolist(), strict=True)
            for (first, at_first), (second, at_second) in combinations(places, 2):
                if first != second:
                    hits[first, second][at_second - at_first] += 1
    same = []
    for (first, second), offsets in sorted(hits.items()):
        offset, count = offsets.most_common(1)[0]
        start = max(0, -offset)
        stop = min(len(prints[first]), len(prints[second]) - offset)
        if count < _HITS or stop - start < _LEAST_FRAMES:
            continue
        different = prints[first][start:stop] ^ prints[second][start + offset : stop + offset]
        if np.unpackbits(different.view(np.uint8)).mean() <= _LARGEST_SHARE:
            same.append((first, second))
    return same
