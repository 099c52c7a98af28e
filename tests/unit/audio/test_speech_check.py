"""Speech is found where it is, and in no tone, noise or tune; and not by its level."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.audio import speech_check
from asdf.audio.speech_check import describe, evidence, has_speech, speech_finder
from asdf.errors import UsageError
from tests.unit.conftest import sound

RATE = 16000
SECONDS = np.arange(6 * RATE) / RATE


def chord(*frequencies: float) -> np.ndarray:
    return sum(np.sin(2 * np.pi * frequency * SECONDS) for frequency in frequencies) / 4


def tune() -> np.ndarray:
    """Plucked notes, three a second."""
    rng = np.random.default_rng(0)
    made = np.zeros(len(SECONDS) + RATE)
    for start in range(0, len(SECONDS), RATE // 3):
        pitch = 220 * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11]) / 12)
        time = np.arange(RATE) / RATE
        for harmonic in range(1, 8):
            decay = np.exp(-3 * harmonic * time)
            note = decay * np.sin(2 * np.pi * harmonic * pitch * time)
            made[start : start + RATE] += note / harmonic
    return made[: len(SECONDS)] / 4


def siren() -> np.ndarray:
    pitch = 700 * (1 + 0.3 * np.sin(2 * np.pi * SECONDS))
    return 0.5 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)


def ring() -> np.ndarray:
    return chord(440, 480) * (SECONDS % 3 < 1)


SOUNDS = {
    "tone": chord(440),
    "chord": chord(220, 277.2, 329.6),
    "tune": tune(),
    "siren": siren(),
    "ring tone": ring(),
    "white noise": np.random.default_rng(0).normal(0, 0.1, len(SECONDS)),
    "brown noise": sound(len(SECONDS)),
    "beating noise": np.random.default_rng(1).normal(0, 0.1, len(SECONDS))
    * (1 + np.sin(2 * np.pi * 4 * SECONDS)),
}


@pytest.mark.parametrize("name", SOUNDS)
def test_other_sounds_are_no_speech(name):
    waveform = SOUNDS[name].astype(np.float32)
    assert not has_speech(waveform)
    # Nor at another level, by as much as a last digit.
    assert evidence(waveform[:64000] * 0.01) == pytest.approx(evidence(waveform[:64000]), abs=0.02)


@pytest.mark.parametrize("samples", [RATE, 4 * RATE, 4 * RATE + 1, 6 * RATE, 7 * RATE + 9])
def test_speech_at_either_end_is_found(monkeypatch, samples):
    def found(segment):
        assert len(segment) == min(samples, 4 * RATE)
        return 1000 if segment.any() else -1000

    monkeypatch.setattr(speech_check, "evidence", found)
    for index in (0, samples - 1):
        waveform = np.zeros(samples, np.float32)
        waveform[index] = 1
        assert has_speech(waveform)
    assert not has_speech(np.zeros(samples, np.float32))


def test_under_a_second_speech_is_supposed():
    assert has_speech(SOUNDS["tone"][: RATE - 1])
    assert not has_speech(SOUNDS["tone"][:RATE])


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_silence_and_an_offset_give_finite_numbers(offset):
    waveform = np.full(4 * RATE, offset, np.float32)
    assert np.isfinite(np.nan_to_num(describe(waveform))).all()
    assert not has_speech(waveform)


def test_modulation_at_the_rate_of_syllables_is_measured_as_such():
    """The third number is the proportion of modulation at 2 to 9 Hz, the fourth at 12 to 28 Hz."""
    noise = np.random.default_rng(2).normal(0, 0.1, 4 * RATE)
    time = np.arange(4 * RATE) / RATE
    of_syllables = describe(noise * (1.05 + np.sin(2 * np.pi * 4 * time)))
    of_rattling = describe(noise * (1.05 + np.sin(2 * np.pi * 20 * time)))
    assert of_syllables[2] > 0.7 > 0.3 > of_syllables[3]
    assert of_rattling[3] > 0.7 > 0.3 > of_rattling[2]


def test_a_pitch_is_found_and_its_glide():
    """The ninth number is the proportion of voiced frames, the tenth the mean step in semitones."""
    time = np.arange(4 * RATE) / RATE
    # An octave in 4 s: 12 semitones over 249 steps of 16 ms.
    phase = 2 * np.pi * np.cumsum(80 * 2 ** (time / 4)) / RATE
    voice = sum(np.sin(k * phase) / k for k in range(1, 6)) / 4
    voiced, glide = describe(voice)[8:10]
    assert voiced > 0.95
    # Lags are whole samples.
    assert glide == pytest.approx(12 / 249, abs=0.02)


def test_what_looks_for_speech_is_named():
    assert speech_finder("off") is None
    assert speech_finder("built-in") is has_speech
    with pytest.raises(UsageError, match="give 'built-in', 'silero' or 'off'"):
        speech_finder("ears")
