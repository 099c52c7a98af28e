"""Recordings at other rates than 16 kHz, and channels: read as the network hears them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from scipy.signal import chirp, firwin
from torchaudio.functional import resample as torchaudio_resample

from asdf.audio import audio_length, decoded_length, measure_speech, read_audio, read_speech
from asdf.audio.augmentation import open_chain
from asdf.audio.rawboost import Notches, design, draw
from asdf.audio.reading import read_blocks
from asdf.audio.speech import identity, speech_mask
from asdf.errors import AsdfError, UsageError
from asdf.settings import Sections
from asdf.settings.sections import Audio, RawBoost, SpeechActivity

OFF = SpeechActivity(mode="off")


def sweep(rate: int, seconds: float = 0.5, top_hz: float = 3000.0) -> np.ndarray:
    """Return a chirp from 100 Hz up, which ends softly on both sides."""
    times = np.arange(round(seconds * rate)) / rate
    tone = 0.5 * chirp(times, 100.0, seconds, top_hz) * np.hanning(len(times))
    return tone.astype(np.float32)


def written(path: Path, samples: np.ndarray, rate: int) -> Path:
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return path


@pytest.mark.parametrize("stated", [8000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("heard", [8000, 24_000, 44_100, 48_000])
def test_a_chirp_is_the_chirp_of_the_other_rate(tmp_path, stated, heard):
    """The formula of the chirp gives the samples that resampling has to give."""
    path = written(tmp_path / "x.wav", sweep(stated), stated)
    audio = Audio(heard)
    read = read_audio(path, audio=audio)
    assert len(read) == audio_length(path, audio) == -(-round(0.5 * stated) * heard // stated)
    assert decoded_length(path, audio) == len(read)
    expected = sweep(heard)
    np.testing.assert_allclose(read[: len(expected)], expected[: len(read)], atol=2e-3)


@pytest.mark.parametrize("heard", [8000, 24_000, 48_000])
def test_parts_and_blocks_are_those_of_the_whole(tmp_path, heard):
    rng = np.random.default_rng(0)
    noise = (0.1 * rng.standard_normal(30_000)).astype(np.float32)
    path = written(tmp_path / "x.wav", noise, 22_050)
    audio = Audio(heard)
    whole = read_audio(path, audio=audio)
    expected = torchaudio_resample(torch.from_numpy(noise), 22_050, heard).numpy()
    np.testing.assert_allclose(whole, expected[: len(whole)], atol=1e-6)
    part = read_speech(path, OFF, 3001, 4000, audio)
    np.testing.assert_allclose(part, whole[3001:7001], atol=1e-6)
    blocks = np.concatenate(list(read_blocks(path, 777, audio)))
    np.testing.assert_allclose(blocks, whole, atol=1e-6)


def test_at_its_own_rate_a_recording_is_what_its_file_holds(tmp_path):
    samples = sweep(44_100, top_hz=20_000)
    path = written(tmp_path / "x.wav", samples, 44_100)
    assert np.array_equal(read_audio(path, audio=Audio(44_100)), samples)


def test_a_chosen_channel_all_of_them_and_their_mean(tmp_path):
    left, right = sweep(16_000), sweep(16_000, top_hz=900)
    path = written(tmp_path / "x.wav", np.stack([left, right], axis=1), 16_000)
    assert np.array_equal(read_audio(path), (left + right) / 2)
    assert np.array_equal(read_audio(path, audio=Audio(channels=1)), right)
    assert np.array_equal(
        read_audio(path, 10, 5, Audio(channels="all")), np.stack([left, right], 1)[10:15]
    )
    at_8 = read_audio(path, audio=Audio(8000, "all"))
    assert np.array_equal(at_8[:, 1], read_audio(path, audio=Audio(8000, 1)))
    blocks = np.concatenate(list(read_blocks(path, 333, Audio(8000, "all"))))
    np.testing.assert_allclose(blocks, at_8, atol=1e-6)


def test_a_missing_channel_is_refused_by_name(tmp_path):
    path = written(tmp_path / "mono.wav", sweep(16_000), 16_000)
    assert np.array_equal(read_audio(path, audio=Audio(channels=0)), sweep(16_000))
    reason = r"mono.wav has one channel, 0, but audio.channels = 1"
    for read in (read_audio, audio_length, decoded_length):
        with pytest.raises(AsdfError, match=reason):
            read(path, audio=Audio(channels=1))
    with pytest.raises(AsdfError, match=reason):
        next(read_blocks(path, 100, Audio(channels=1)))


def test_speech_is_the_same_stretch_at_any_rate(tmp_path):
    """Frames of 20 ms: a tone from 0.2 to 0.6 s, then the hangover of 0.1 s."""
    sad = SpeechActivity(mode="endpoint", threshold_db=30.0, hangover_s=0.1)
    for rate in (8000, 16_000, 44_100):
        times = np.arange(rate) / rate
        tone = np.where((times >= 0.2) & (times < 0.6), np.sin(2 * np.pi * 440 * times), 0)
        speech = np.flatnonzero(speech_mask(tone.astype(np.float32), sad, rate))
        assert speech[0] / rate == pytest.approx(0.2, abs=1e-3)
        assert (speech[-1] + 1) / rate == pytest.approx(0.7, abs=1e-3)
        path = written(tmp_path / f"{rate}.wav", tone, rate)
        measured = measure_speech(path, sad, audio=Audio(rate))
        assert measured.speech == pytest.approx(0.5 * rate, abs=2)


def test_lengths_of_other_rates_have_other_keys():
    sad = SpeechActivity(mode="on")
    keys = {
        identity(sad, audio) for audio in (Audio(), Audio(8000), Audio(channels=1), Audio(8000, 1))
    }
    assert len(keys) == 4
    # What was measured before there was a choice is used on.
    assert identity(OFF, Audio()) == "off"


def test_notches_are_at_their_frequencies_at_any_rate():
    """One notch by scipy's firwin: at 44.1 kHz from 5 to 7 kHz."""
    notches = Notches(
        np.array([[6000.0]]), np.array([[2000.0]]), np.array([[101]]), np.array([0.0]), 44_100
    )
    (designed,) = design(notches)
    expected = firwin(101, [5000, 7000], window="hamming", fs=44_100)
    # Both are scaled: to gain 1 at 0 Hz, and so that the highest gain is 0 dB.
    np.testing.assert_allclose(designed / designed.sum(), expected / expected.sum(), atol=1e-9)
    drawn = draw(1000, RawBoost(algo=1), np.random.default_rng(0), 44_100)
    assert drawn.lnl is not None and drawn.lnl.rate == 44_100


def test_augmentation_works_at_the_network_s_rate(tmp_path):
    settings = Sections()
    settings.audio.sample_rate = 44_100
    settings.augmentation.chain = ("bandwidth",)
    settings.augmentation.probability = 1.0
    (part,) = open_chain(settings, tmp_path).parts
    part.min_hz = part.max_hz = 6000.0
    noise = np.random.default_rng(0).standard_normal(44_100).astype(np.float32)
    power = np.abs(np.fft.rfft(part.apply(noise, np.random.default_rng(0)))) ** 2
    # A bin is a Hz; the clip's ends are cut off sharply, which leaks.
    assert power[6000:].max() < 1e-4 * power[:5500].mean()
    assert power[:5500].mean() == pytest.approx(44_100, rel=0.1)


def test_codecs_of_wide_bands_are_refused_at_other_rates(tmp_path):
    settings = Sections()
    settings.audio.sample_rate = 44_100
    settings.augmentation.chain = ("codec",)
    settings.augmentation.codecs = ("mp3",)
    with pytest.raises(UsageError, match="'mp3', which runs at 16 kHz here"):
        open_chain(settings, tmp_path)
    settings.augmentation.codecs = ("a-law",)
    settings.audio.sample_rate = 8000
    (part,) = open_chain(settings, tmp_path).parts
    clip = sweep(8000)
    np.testing.assert_allclose(part.apply(clip, np.random.default_rng(0)), clip, atol=0.02)
