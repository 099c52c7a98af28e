"""Degradations by name, with their grades: changes to speech on its way to a detector.

Invariant: a degraded waveform depends on the waveform, the grade and the draws of a generator,
whose seed does not include the grade. The grades of a degradation thus share their noise, and
differ only in the grade. Waveforms are float32 at 16 kHz, and nothing is clipped here. A
degradation that is not available states why.

To add one: a row in `_ROWS`.

EnCodec is a neural codec: speech is coded to tokens and decoded, with a transformers folder, which
is read once per process; nothing is downloaded, and no code of a folder is executed. Length and
level are preserved. Source: Défossez et al., "High Fidelity Neural Audio Compression", TMLR 2023.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.arrays import Floats
from asdf.audio.augmentation.acoustics import mix, read_response, reverberate
from asdf.audio.augmentation.codecs import CODECS, check_codecs, transcode
from asdf.audio.augmentation.filtering import (
    at_speed,
    filter_clip,
    find_fast_size,
    limit_bandwidth,
    low_pass,
)
from asdf.audio.augmentation.part import draw_item
from asdf.audio.reading import audio_length, read_audio
from asdf.audio.sample_rates import resample
from asdf.audio.speech import cut_to_speech, repeat_to
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

# Coloured noise is flat below this frequency: without a limit, brown noise is an offset.
_LOWEST_HZ = 20.0
# A room decays by 60 dB in its reverberation time.
_SIXTY_DB = math.log(1000)
_FIRST_REFLECTION_S = 0.0025
_FRAME = 512
_HOP = 128
_ORDER = 5
_CHORD_S = 0.6
_CHORDS = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))
_MIDDLE_C_HZ = 261.63
_HARMONICS = 6


def coloured_noise(samples: int, slope: float, rng: Generator) -> Floats:
    """Return (samples,) of Gaussian noise with power proportional to 1 / frequency^slope.

    Args:
        slope: Exponent: 0 for white, 1 for pink, 2 for brown noise.
    """
    spectrum = rfft(rng.standard_normal(samples))
    hertz = np.arange(len(spectrum)) * SAMPLE_RATE / samples
    # Half of the slope, which is that of the power: a spectrum holds amplitudes.
    spectrum *= np.maximum(hertz, _LOWEST_HZ) ** (-slope / 2)
    noise = irfft(spectrum, samples)
    level = math.sqrt(float(np.mean(noise**2))) or 1.0
    return (noise / level).astype(np.float32)


def room_response(rt60_s: float, rng: Generator) -> Floats:
    """Return the impulse response of a simulated room: direct sound and decaying noise.

    The reverberation has the energy of the direct sound, and decays by 60 dB in `rt60_s`.
    """
    times = np.arange(round(rt60_s * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * np.exp(-_SIXTY_DB * times / rt60_s)
    tail[times < _FIRST_REFLECTION_S] = 0
    tail /= np.sqrt(tail @ tail)
    tail[0] = 1  # the direct sound
    return tail.astype(np.float32)


def music(samples: int, rng: Generator) -> Floats:
    """Return (samples,) of a sequence of plucked chords, as a substitute for recorded music."""
    length = round(_CHORD_S * SAMPLE_RATE)
    times = np.arange(length) / SAMPLE_RATE
    first = int(rng.integers(len(_CHORDS)))
    key = int(rng.integers(-5, 7))  # all twelve keys
    parts = []
    for number in range(-(-samples // length)):
        chord = np.zeros(length)
        for semitone in _CHORDS[(first + number) % len(_CHORDS)]:
            pitch = _MIDDLE_C_HZ * 2 ** ((semitone + key) / 12)
            for harmonic in range(1, _HARMONICS + 1):
                phase = rng.uniform(0, 2 * np.pi)
                wave = np.sin(2 * np.pi * harmonic * pitch * times + phase)
                # A plucked string: higher harmonics are weaker and die away sooner.
                chord += wave * np.exp(-3 * harmonic * times) / harmonic
        parts.append(chord)
    return np.concatenate(parts)[:samples].astype(np.float32)


def high_pass(waveform: np.ndarray, limit_hz: float) -> np.ndarray:
    """Remove from `waveform` (T,) the frequencies below `limit_hz`: (T,) float32."""
    coefficients = -low_pass(limit_hz)
    # All frequencies less the low ones: the middle tap alone passes everything, in time.
    coefficients[len(coefficients) // 2] += 1
    return filter_clip(waveform, [coefficients])


def butterworth(waveform: Floats, share: float, *, is_high: bool) -> Floats:
    """Filter `waveform` (T,) by a digital Butterworth filter of order 5: (T,) float32.

    The filter is designed by the bilinear transform, like `scipy.signal.butter`.

    Args:
        share: Cut-off frequency as a proportion of half of the sampling rate.
    """
    # A second of zeros, so that ringing does not wrap around to the start.
    points = find_fast_size(len(waveform) + SAMPLE_RATE)
    angles = np.pi * np.arange(points // 2 + 1) / points
    ratio = 1j * np.tan(angles) / math.tan(np.pi * share / 2)
    response = np.ones(len(ratio), np.complex128)
    for number in range(_ORDER):
        pole = np.exp(1j * np.pi * (2 * number + _ORDER + 1) / (2 * _ORDER))
        # 1 / ratio, as textbooks write a high-pass, would divide by zero at 0 Hz.
        response *= ratio / (1 - pole * ratio) if is_high else 1 / (ratio - pole)
    filtered = irfft(rfft(waveform.astype(np.float64), points) * response, points)
    return filtered[: len(waveform)].astype(np.float32)


def stretch(waveform: Floats, speed: float) -> Floats:
    """Play `waveform` (T,) at another tempo with the same pitch: (round(T / speed),) float32.

    This is a phase vocoder: Flanagan and Golden, "Phase vocoder", Bell System Technical Journal
    1966.
    """
    import torch
    from torchaudio.functional import phase_vocoder

    window = torch.hann_window(_FRAME)
    samples = torch.from_numpy(np.ascontiguousarray(waveform, np.float32))
    # Short recordings must fill a frame.
    samples = torch.nn.functional.pad(samples, (0, max(0, _FRAME - len(samples))))
    spectrum = torch.stft(samples, _FRAME, _HOP, window=window, return_complex=True)
    # (bins, 1), in radians per hop
    advance = torch.linspace(0, math.pi * _HOP, _FRAME // 2 + 1)[:, None]
    slower = phase_vocoder(spectrum, speed, advance)
    length = max(1, round(len(waveform) / speed))
    played = torch.istft(slower, _FRAME, _HOP, window=window, length=length)
    result: Floats = played.numpy()
    return result


def shift_pitch(waveform: Floats, semitones: float) -> Floats:
    """Raise or lower the pitch of `waveform` (T,) at the same tempo: (T,) float32."""
    longer = stretch(waveform, 2 ** (-semitones / 12)).astype(np.float64)
    # Resample the whole, band-limited, to its original length.
    length = len(waveform)
    spectrum = rfft(longer)[: length // 2 + 1]
    # irfft divides by its own length, and the spectrum is that of the longer waveform.
    return (irfft(spectrum, length) * (length / len(longer))).astype(np.float32)


def clip_share(waveform: Floats, per_cent: float) -> Floats:
    """Clip the loudest `per_cent` of the samples of `waveform` (T,): (T,) float32."""
    limit = np.quantile(np.abs(waveform), 1 - per_cent / 100)
    return np.clip(waveform, -limit, limit).astype(np.float32)


def quantise(waveform: Floats, levels: float) -> Floats:
    """Round `waveform` (T,) to `levels` levels between its lowest and highest sample."""
    low = float(waveform.min())
    span = float(waveform.max()) - low
    if not span:
        return waveform
    steps = np.round((waveform - low) / span * (levels - 1))
    return (steps / (levels - 1) * span + low).astype(np.float32)


def smooth(waveform: Floats, window: float) -> Floats:
    """Return the moving average of `waveform` (T,) over a window of samples."""
    width = round(window)
    # As long as before, and centred, so that speech is not shifted.
    padded = np.pad(waveform.astype(np.float64), (width // 2, width - width // 2 - 1))
    return np.convolve(padded, np.full(width, 1 / width), "valid").astype(np.float32)


def echo(waveform: Floats, volume: float, delay_s: float = 0.1) -> Floats:
    """Add one echo to `waveform` (T,), and keep its peak: (T,) float32."""
    delay = round(delay_s * SAMPLE_RATE) - 1
    echoed = waveform.astype(np.float64)
    # max: a negative end would count from the end of a recording shorter than the delay.
    echoed[delay:] += volume * waveform[: max(0, len(waveform) - delay)]
    peak = float(np.abs(echoed).max())
    level = float(np.abs(waveform).max()) / peak if peak else 1.0
    return (level * echoed).astype(np.float32)


_TALKERS = 6
_TELEPHONE_HZ = (300.0, 3400.0)
_LOUDSPEAKER_HZ = (150.0, 7000.0)
_MICROPHONE_SNR_DB = 40.0


@dataclass(frozen=True)
class Material:
    """Recordings that degradations use, as paths.

    Attributes:
        speech: Recordings of the list, used for babble.
        noise, music, rooms: Recordings in folders given by the user; empty for none.
        encodec: Folder of a neural codec; '' for none.
    """

    speech: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    music: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    encodec: str = ""


@dataclass(frozen=True)
class Draw:
    """Random resources for degrading the recording `path`: a generator, and recordings."""

    rng: Generator
    material: Material
    path: str


Apply = Callable[[Floats, float, Draw], Floats]
Missing = Callable[[Material], str]


@dataclass(frozen=True)
class Degradation:
    """A named degradation.

    Attributes:
        family: Kind of degradation, for choosing several at once.
        words: Description in a few words.
        unit: Unit of its grades; '' for grades without a unit.
        grades: Default grades, mildest first; empty if it has none.
        apply: Function of a waveform (T,) float32 at 16 kHz, a grade and a `Draw`.
        missing: Function that returns why it is not available; '' if it is.
    """

    name: str
    family: str
    words: str
    unit: str
    grades: tuple[float, ...]
    apply: Apply
    missing: Missing = lambda material: ""


def _plain(change: Callable[[Floats, float], Floats]) -> Apply:
    """Return a degradation without random draws."""
    return lambda waveform, grade, draw: change(waveform, grade)


def _codec(name: str, words: str, *grades: float, unit: str = "kbit/s") -> tuple[Any, ...]:
    change = _plain(lambda waveform, grade: transcode(waveform, name, grade))
    return name, words, unit, grades, change, partial(codecs_missing, [name])


def _chain(name: str, words: str, *steps: tuple[str, float]) -> tuple[Any, ...]:
    """Return several codecs in sequence, each with its bit rate."""

    def apply(waveform: Floats, grade: float, draw: Draw) -> Floats:
        for codec, kbps in steps:
            waveform = transcode(waveform, codec, kbps)
        return waveform

    return name, words, "", (), apply, partial(codecs_missing, [codec for codec, _ in steps])


def codecs_missing(names: Sequence[str], material: Material) -> str:
    """Return why the codecs of a chain are not available; '' if they are."""
    # One at a time, so that the reason names the codec of the chain that is missing.
    for name in names:
        try:
            check_codecs([name])
        except UsageError:
            # Codecs of libsndfile have a kind of file, those of PyAV have none.
            if CODECS[name].kind is None:
                return f"PyAV's FFmpeg has no encoder for {name}"
            return f"libsndfile was built without {name}: pip install -U soundfile"
    return ""


def resampled(waveform: Floats, rate: float) -> Floats:
    """Resample `waveform` (T,) to a lower rate and back: (T,)."""
    # Lowering the rate equals resampling from a proportionally higher rate.
    source = SAMPLE_RATE**2 // round(rate)
    # Both lengths are rounded up, which adds up to three samples.
    return resample(resample(waveform, source), round(rate))[: len(waveform)]


def limited(waveform: np.ndarray, band_hz: tuple[float, float]) -> Floats:
    """Return the frequencies of `waveform` (T,) in a band: (T,)."""
    return limit_bandwidth(high_pass(waveform, band_hz[0]), band_hz[1])


def _coloured(slope: float) -> Apply:
    return lambda waveform, grade, draw: mix(
        waveform, coloured_noise(len(waveform), slope, draw.rng), grade
    )


def _read_part(path: str, samples: int, rng: Generator) -> Floats:
    """Read `samples` of a recording from a random position; a shorter one is repeated."""
    length = audio_length(path)
    start = int(rng.integers(max(1, length - samples + 1)))
    return repeat_to(read_audio(path, start, min(length, samples)), samples)


def with_babble(waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Mix `waveform` (T,) with other recordings of the list, each at one level."""
    speech = draw.material.speech
    talkers = np.zeros(len(waveform))
    for _ in range(_TALKERS):
        index = int(draw.rng.integers(len(speech)))
        # Avoid the recording itself by taking the one before it.
        path = speech[index] if speech[index] != draw.path else speech[index - 1]
        voice = _read_part(path, len(waveform), draw.rng)
        level = float(np.sqrt(np.mean(np.square(voice, dtype=np.float64))))
        # A silent recording adds nothing.
        talkers += voice / (level or 1.0)
    return mix(waveform, talkers.astype(np.float32), grade)


def with_recorded(kind: str, waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Mix `waveform` (T,) with recorded 'noise' or 'music'; without recordings, with chords."""
    if paths := getattr(draw.material, kind):
        added = _read_part(draw_item(paths, draw.rng), len(waveform), draw.rng)
    else:
        added = music(len(waveform), draw.rng)
    return mix(waveform, added, grade)


def in_room(waveform: Floats, rt60_s: float, draw: Draw) -> Floats:
    """Return `waveform` (T,) in a simulated room: (T,)."""
    return reverberate(waveform, room_response(rt60_s, draw.rng))


def in_recorded_room(waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Return `waveform` (T,) in a room whose response was recorded: (T,)."""
    return reverberate(waveform, read_response(draw_item(draw.material.rooms, draw.rng)))


def others_missing(material: Material) -> str:
    """Return why there is no babble; '' if there are other recordings."""
    return "" if len(material.speech) > 1 else "babble is made of the list's other recordings"


def _folder_missing(of: str) -> Missing:
    reason = f"--{of} FOLDER names recordings for it"
    return lambda material: "" if getattr(material, of) else reason


def cut(waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Return `grade` seconds of `waveform` (T,), from a random position."""
    samples = min(len(waveform), round(grade * SAMPLE_RATE))
    start = int(draw.rng.integers(len(waveform) - samples + 1))
    return waveform[start : start + samples]


def _without_silence(mode: str) -> Apply:
    # No hangover: it would leave a stretch of silence after the speech.
    sad = SpeechActivity(mode=mode, detector="energy", hangover_s=0.0)  # type: ignore[arg-type]
    return lambda waveform, grade, draw: cut_to_speech(waveform, sad)


def replay(waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Play speech through a small loudspeaker in a room, and record it with a microphone."""
    # Silence has no peak to divide by.
    peak = float(np.abs(waveform).max()) or 1.0
    # A small loudspeaker compresses peaks; for quiet speech tanh(2 x) / 2 is about x.
    driven = (np.tanh(2 * waveform / peak) * peak / 2).astype(np.float32)
    heard = reverberate(limited(driven, _LOUDSPEAKER_HZ), room_response(grade, draw.rng))
    return mix(heard, coloured_noise(len(heard), 1, draw.rng), _MICROPHONE_SNR_DB)


def encodec_missing(folder: str) -> str:
    """Return why the model in a folder cannot code recordings; '' if it can."""
    if not folder:
        return "--encodec FOLDER names the model: hf download facebook/encodec_24khz has one"
    try:
        importlib.import_module("transformers")
    except ImportError:
        return "transformers is not installed: pip install 'asdf-antispoofing[transformers]'"
    path = Path(folder) / "config.json"
    if not path.is_file():
        return f"there is no {path}: name a folder of transformers' EncodecModel"
    kind = read_json(path).get("model_type")
    if kind != "encodec":
        return f"{path} has the model_type {kind!r}, not 'encodec'"
    return ""


def code_and_decode(waveform: Floats, folder: str, kbps: float) -> Floats:
    """Return a waveform (T,) at 16 kHz after coding and decoding, (T,).

    Args:
        folder: Folder of the model.
        kbps: Bit rate in kbit/s, one of the model's.

    Raises:
        AsdfError: the model does not support this bit rate, or takes several channels.
    """
    import torch
    from torchaudio.functional import resample

    model = open_encodec(folder)
    rates = model.config.target_bandwidths
    if kbps not in rates:
        known = ", ".join(f"{rate:g}" for rate in rates)
        raise AsdfError(f"encodec={kbps:g}: the model in {folder} only has {known} kbit/s.")
    samples = torch.from_numpy(waveform)
    with torch.inference_mode():
        higher = resample(samples, SAMPLE_RATE, model.config.sampling_rate)
        # (1 recording, 1 channel, samples)
        decoded = model(higher[None, None], bandwidth=kbps).audio_values[0, 0]
        back = resample(decoded, model.config.sampling_rate, SAMPLE_RATE)
    # Resampling rounds lengths up in both directions.
    result: Floats = back[: len(waveform)].numpy()
    return result


# A study has one model, which each worker process reads once.
@lru_cache(1)
def open_encodec(folder: str) -> Any:
    """Return the model in a folder.

    Raises:
        AsdfError: it cannot be read, or takes several channels.
    """
    from transformers import EncodecModel
    from transformers.utils import logging

    # A progress bar of the layers would disturb that of the recordings.
    logging.disable_progress_bar()
    try:
        # Safetensors alone: the other format of weights is a pickle, which can execute code.
        model = EncodecModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise AsdfError(f"{folder} cannot be read as an EncodecModel: {error}.") from error
    if model.config.audio_channels != 1:
        raise AsdfError(
            f"the model in {folder} takes {model.config.audio_channels} channels; recordings here "
            "have one: facebook/encodec_24khz takes one."
        )
    return model.eval()


_AMR = ("amr-nb", 12.2)
_OPUS = ("opus", 16.0)
_VIDEO = (("aac", 64.0), ("mp3", 64.0), ("aac", 32.0))
_BUTTER = "of order 5 at a share of 8 kHz"
_SNR = ("dB SNR", (20, 10, 0))
_LOW = _plain(partial(butterworth, is_high=False))
_HIGH = _plain(partial(butterworth, is_high=True))
_TELEPHONE = _plain(lambda waveform, grade: limited(waveform, _TELEPHONE_HZ))
_LANDLINE = _plain(lambda waveform, grade: transcode(limited(waveform, _TELEPHONE_HZ), "a-law", 64))
_NOISE = partial(with_recorded, "noise")
_MUSIC = partial(with_recorded, "music")
_RESAMPLED = _plain(resampled)
# `at_speed` resamples from a whole number of Hz.
_SPEED = _plain(lambda waveform, percent: at_speed(waveform, round(percent)))
_GAIN = _plain(lambda waveform, decibels: (waveform * 10 ** (decibels / 20)).astype(np.float32))
_NO_ROOMS = _folder_missing("rooms")

# Name, words, unit, grades, function and, for some, the reason why it is missing.
_ROWS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "codec": (
        _codec("mp3", "MP3", 64, 32, 16),
        _codec("aac", "AAC, low complexity", 64, 32, 16),
        _codec("opus", "Opus", 32, 16, 8),
        # libsndfile encodes Vorbis by quality, 0 to 10, and not at a bit rate.
        _codec("vorbis", "Ogg Vorbis", 4, 0, unit="quality"),
        _codec("amr-nb", "AMR, narrow band: mobile telephones", 12.2, 7.4, 4.75),
        _codec("mu-law", "G.711 mu-law at 8 kHz", 64),
        _codec("a-law", "G.711 A-law at 8 kHz", 64),
        _codec("g722", "G.722: wide band telephones", 64),
        _codec("gsm", "GSM full rate", 13),
        (
            "encodec",
            "EnCodec, a neural codec: of --encodec",
            "kbit/s",
            (12, 6, 3),
            lambda waveform, kbps, draw: code_and_decode(waveform, draw.material.encodec, kbps),
            lambda material: encodec_missing(material.encodec),
        ),
    ),
    "chain": (
        ("landline", "300 to 3,400 Hz, A-law", "", (), _LANDLINE),
        _chain("mobile-call", "AMR, A-law, AMR", _AMR, ("a-law", 64), _AMR),
        _chain("messenger-twice", "a voice message passed on: Opus twice", _OPUS, _OPUS),
        _chain("call-in-messenger", "a recorded call sent on: AMR, Opus", _AMR, _OPUS),
        _chain("video-reposted", "a video posted again: AAC, MP3, AAC", *_VIDEO),
        _chain("mp3-of-aac", "two codecs in a row: AAC, MP3", ("aac", 48), ("mp3", 48)),
    ),
    "resampling": (
        ("resampled", "to a lower sampling rate and back", "Hz", (10000, 8000, 4000), _RESAMPLED),
    ),
    "band": (
        ("low-pass", "nothing above", "Hz", (6000, 3400, 2000), _plain(limit_bandwidth)),
        ("high-pass", "nothing below", "Hz", (300, 1000), _plain(high_pass)),
        ("telephone-band", "300 to 3,400 Hz", "", (), _TELEPHONE),
        ("butter-low", f"Butterworth low-pass {_BUTTER}", "of 8 kHz", (0.5, 0.3, 0.1), _LOW),
        ("butter-high", f"Butterworth high-pass {_BUTTER}", "of 8 kHz", (0.1, 0.3, 0.5), _HIGH),
        ("smooth", "mean over a window", "samples", (6, 14, 26), _plain(smooth)),
    ),
    "noise": (
        ("white", "white noise", *_SNR, _coloured(0)),
        ("pink", "pink noise", *_SNR, _coloured(1)),
        ("brown", "brown noise", *_SNR, _coloured(2)),
        ("babble", "six other recordings of the list at once", *_SNR, with_babble, others_missing),
        ("noise", "recordings of --noise", *_SNR, _NOISE, _folder_missing("noise")),
    ),
    "music": (("music", "music: of --music, else synthesised", *_SNR, _MUSIC),),
    "reverberation": (
        ("room", "simulated room", "s RT60", (0.3, 0.6, 1.2), in_room),
        ("recorded-room", "impulse responses of --rooms", "", (), in_recorded_room, _NO_ROOMS),
        ("echo", "one echo after 0.1 s", "of the speech", (0.1, 0.5, 0.9), _plain(echo)),
    ),
    "level": (
        ("clipping", "the loudest samples clipped", "%", (1, 5, 20), _plain(clip_share)),
        ("gain", "another level, clipped at full scale", "dB", (-20, 10, 20), _GAIN),
        ("quantised", "fewer levels", "levels", (1024, 256, 64, 16), _plain(quantise)),
    ),
    "time": (
        ("speed", "tempo and pitch together, as a tape", "%", (90, 110), _SPEED),
        (
            "tempo",
            "another tempo at the same pitch",
            "times",
            (0.8, 0.9, 1.1, 1.3),
            _plain(stretch),
        ),
        (
            "pitch",
            "another pitch at the same tempo",
            "semitones",
            (-4, -2, 2, 4),
            _plain(shift_pitch),
        ),
        ("cut", "a part of the recording", "s", (2, 1, 0.5), cut),
        ("trimmed", "without the silences at both ends", "", (), _without_silence("endpoint")),
        ("no-pauses", "speech alone, without any silence", "", (), _without_silence("on")),
    ),
    "replay": (
        ("replay", "loudspeaker, simulated room, microphone", "s RT60", (0.3, 0.6), replay),
    ),
}

DEGRADATIONS: dict[str, Degradation] = {
    name: Degradation(name, family, *facts)
    for family, rows in _ROWS.items()
    for name, *facts in rows
}
"""The degradations by name."""

FAMILIES = tuple(_ROWS)
"""The kinds of degradations, in the order of the catalogue."""

NOT_HERE = {"amr-wb": "PyAV decodes AMR wide band, and brings no coder of it"}
"""Common degradations that are not offered, with the reason."""
