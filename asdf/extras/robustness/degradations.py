"""Degradations by name, with their grades: changes to speech on its way to a detector.

Invariant: a degraded waveform depends on the waveform, the grade and the draws of a generator,
whose seed does not include the grade. The grades of a degradation thus share their noise, and
differ only in the grade. A degradation that is not available states why.

To add one: a row in `_ROWS`.

EnCodec is a neural codec: speech is coded to tokens and decoded, with a transformers folder, which
is read once per process; nothing is downloaded, and no code of a folder is executed. Length and
level are preserved. Source: Défossez et al., "High Fidelity Neural Audio Compression", TMLR 2023.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from asdf.arrays import Floats
from asdf.audio.augmentation.acoustics import mix, read_response, reverberate
from asdf.audio.augmentation.codecs import CODECS, check_codecs, transcode
from asdf.audio.augmentation.filtering import at_speed, limit_bandwidth
from asdf.audio.draws import draw_item
from asdf.audio.reading import audio_length, read_audio
from asdf.audio.sample_rates import resample
from asdf.audio.speech import cut_to_speech, repeat_to
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError, UsageError
from asdf.extras.robustness import sounds
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

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
    missing: Callable[[Material], str] = lambda material: ""


def _plain(change: Callable[[Floats, float], Floats]) -> Apply:
    """Return a degradation without random draws."""
    return lambda waveform, grade, draw: change(waveform, grade)


def _codecs_missing(names: Sequence[str]) -> Callable[[Material], str]:
    def missing(material: Material) -> str:
        # One at a time, so that the reason names the codec of the chain that is missing.
        for name in names:
            try:
                check_codecs([name])
            except UsageError:
                # Codecs of libsndfile have a kind of file, those of PyAV have none.
                if CODECS[name].kind is None:
                    return f"PyAV's FFmpeg has no coder of {name}"
                return f"libsndfile was built without {name}: pip install -U soundfile"
        return ""

    return missing


def _codec(name: str, words: str, *grades: float, unit: str = "kbit/s") -> tuple[Any, ...]:
    def apply(waveform: Floats, grade: float, draw: Draw) -> Floats:
        return transcode(waveform, name, grade)

    return name, words, unit, grades, apply, _codecs_missing([name])


def _chain(name: str, words: str, *steps: tuple[str, float]) -> tuple[Any, ...]:
    """Return several codecs in sequence, each with its bit rate."""

    def apply(waveform: Floats, grade: float, draw: Draw) -> Floats:
        for codec, kbps in steps:
            waveform = transcode(waveform, codec, kbps)
        return waveform

    return name, words, "", (), apply, _codecs_missing([codec for codec, _ in steps])


def _landline(waveform: Floats, grade: float, draw: Draw) -> Floats:
    return transcode(_telephone_band(waveform, grade, draw), "a-law", 64)


def _resampled(waveform: Floats, rate: float) -> Floats:
    # Lowering the rate equals resampling from a proportionally higher rate.
    source = SAMPLE_RATE**2 // round(rate)
    # Both lengths are rounded up, which adds up to three samples.
    return resample(resample(waveform, source), round(rate))[: len(waveform)]


def _telephone_band(waveform: Floats, grade: float, draw: Draw) -> Floats:
    low, high = _TELEPHONE_HZ
    return limit_bandwidth(sounds.high_pass(waveform, low), high)


def _coloured(slope: float) -> Apply:
    def apply(waveform: Floats, grade: float, draw: Draw) -> Floats:
        noise = sounds.coloured_noise(len(waveform), slope, draw.rng)
        return mix(waveform, noise, grade)

    return apply


def _read_part(path: str, samples: int, rng: Generator) -> Floats:
    """Read `samples` of a recording from a random position; a shorter one is repeated."""
    length = audio_length(path)
    start = int(rng.integers(max(1, length - samples + 1)))
    return repeat_to(read_audio(path, start, min(length, samples)), samples)


def _babble(waveform: Floats, grade: float, draw: Draw) -> Floats:
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


def _babble_missing(material: Material) -> str:
    return "" if len(material.speech) > 1 else "babble is made of the list's other recordings"


def _recorded_noise(waveform: Floats, grade: float, draw: Draw) -> Floats:
    path = draw_item(draw.material.noise, draw.rng)
    return mix(waveform, _read_part(path, len(waveform), draw.rng), grade)


def _music(waveform: Floats, grade: float, draw: Draw) -> Floats:
    if draw.material.music:
        path = draw_item(draw.material.music, draw.rng)
        return mix(waveform, _read_part(path, len(waveform), draw.rng), grade)
    return mix(waveform, sounds.music(len(waveform), draw.rng), grade)


def _reverberation(waveform: Floats, grade: float, draw: Draw) -> Floats:
    return reverberate(waveform, sounds.room_response(grade, draw.rng))


def _recorded_room(waveform: Floats, grade: float, draw: Draw) -> Floats:
    return reverberate(waveform, read_response(draw_item(draw.material.rooms, draw.rng)))


def _folder_missing(of: str) -> Callable[[Material], str]:
    return lambda material: (
        "" if getattr(material, of) else f"--{of} FOLDER names recordings for it"
    )


def _cut(waveform: Floats, grade: float, draw: Draw) -> Floats:
    samples = min(len(waveform), round(grade * SAMPLE_RATE))
    start = int(draw.rng.integers(len(waveform) - samples + 1))
    return waveform[start : start + samples]


def _without_silence(mode: str) -> Apply:
    # No hangover: it would leave a stretch of silence after the speech.
    sad = SpeechActivity(mode=mode, detector="energy", hangover_s=0.0)  # type: ignore[arg-type]
    return lambda waveform, grade, draw: cut_to_speech(waveform, sad)


def _replay(waveform: Floats, grade: float, draw: Draw) -> Floats:
    """Play speech through a small loudspeaker in a room, and record it with a microphone."""
    low, high = _LOUDSPEAKER_HZ
    # Silence has no peak to divide by.
    peak = float(np.abs(waveform).max()) or 1.0
    # A small loudspeaker compresses peaks; for quiet speech tanh(2 x) / 2 is about x.
    driven = (np.tanh(2 * waveform / peak) * peak / 2).astype(np.float32)
    played = limit_bandwidth(sounds.high_pass(driven, low), high)
    heard = reverberate(played, sounds.room_response(grade, draw.rng))
    hiss = sounds.coloured_noise(len(heard), 1, draw.rng)
    return mix(heard, hiss, _MICROPHONE_SNR_DB)


def _gain(waveform: Floats, decibels: float) -> Floats:
    return (waveform * 10 ** (decibels / 20)).astype(np.float32)


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

    model = _open_encodec(folder)
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
def _open_encodec(folder: str) -> Any:
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
_LOW = _plain(partial(sounds.butterworth, is_high=False))
_HIGH = _plain(partial(sounds.butterworth, is_high=True))
_RESAMPLED = _plain(_resampled)
_TEMPO = _plain(sounds.stretch)
_PITCH = _plain(sounds.shift_pitch)
# `at_speed` resamples from a whole number of Hz.
_SPEED = _plain(lambda waveform, percent: at_speed(waveform, round(percent)))
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
        ("landline", "300 to 3,400 Hz, A-law", "", (), _landline),
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
        ("high-pass", "nothing below", "Hz", (300, 1000), _plain(sounds.high_pass)),
        ("telephone-band", "300 to 3,400 Hz", "", (), _telephone_band),
        ("butter-low", f"Butterworth low-pass {_BUTTER}", "of 8 kHz", (0.5, 0.3, 0.1), _LOW),
        ("butter-high", f"Butterworth high-pass {_BUTTER}", "of 8 kHz", (0.1, 0.3, 0.5), _HIGH),
        ("smooth", "mean over a window", "samples", (6, 14, 26), _plain(sounds.smooth)),
    ),
    "noise": (
        ("white", "white noise", *_SNR, _coloured(0)),
        ("pink", "pink noise", *_SNR, _coloured(1)),
        ("brown", "brown noise", *_SNR, _coloured(2)),
        ("babble", "six other recordings of the list at once", *_SNR, _babble, _babble_missing),
        ("noise", "recordings of --noise", *_SNR, _recorded_noise, _folder_missing("noise")),
    ),
    "music": (("music", "music: of --music, else synthesised", *_SNR, _music),),
    "reverberation": (
        ("room", "simulated room", "s RT60", (0.3, 0.6, 1.2), _reverberation),
        ("recorded-room", "impulse responses of --rooms", "", (), _recorded_room, _NO_ROOMS),
        ("echo", "one echo after 0.1 s", "of the speech", (0.1, 0.5, 0.9), _plain(sounds.echo)),
    ),
    "level": (
        ("clipping", "the loudest samples clipped", "%", (1, 5, 20), _plain(sounds.clip_share)),
        ("gain", "another level, clipped at full scale", "dB", (-20, 10, 20), _plain(_gain)),
        ("quantised", "fewer levels", "levels", (1024, 256, 64, 16), _plain(sounds.quantise)),
    ),
    "time": (
        ("speed", "tempo and pitch together, as a tape", "%", (90, 110), _SPEED),
        ("tempo", "another tempo at the same pitch", "times", (0.8, 0.9, 1.1, 1.3), _TEMPO),
        ("pitch", "another pitch at the same tempo", "semitones", (-4, -2, 2, 4), _PITCH),
        ("cut", "a part of the recording", "s", (2, 1, 0.5), _cut),
        ("trimmed", "without the silences at both ends", "", (), _without_silence("endpoint")),
        ("no-pauses", "speech alone, without any silence", "", (), _without_silence("on")),
    ),
    "replay": (
        ("replay", "loudspeaker, simulated room, microphone", "s RT60", (0.3, 0.6), _replay),
    ),
}

DEGRADATIONS: dict[str, Degradation] = {}
"""The degradations by name."""

for _family, _rows in _ROWS.items():
    for _name, *_facts in _rows:
        DEGRADATIONS[_name] = Degradation(_name, _family, *_facts)

FAMILIES = tuple(_ROWS)
"""The kinds of degradations, in the order of the catalogue."""

NOT_HERE = {"amr-wb": "PyAV decodes AMR wide band, and brings no coder of it"}
"""Common degradations that are not offered, with the reason."""
