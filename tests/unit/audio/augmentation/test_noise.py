"""Noise and rooms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import read_audio
from asdf.audio.augmentation.acoustics import Noise, Reverberation, mix, read_response, reverberate
from asdf.errors import AsdfError
from tests.augmentations import augmentation


def noise_of(paths: tuple[str, ...], min_snr_db: float = 0, max_snr_db: float = 0) -> Noise:
    settings = augmentation(noise_snr_min_db=min_snr_db, noise_snr_max_db=max_snr_db)
    part = Noise(settings, Path())
    part.recordings = paths
    return part


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 5.0, 37.5])
def test_the_ratio_is_the_requested_one(speech, snr_db):
    noise = 0.01 * np.random.default_rng(1).standard_normal(len(speech), np.float32)
    noisy = mix(speech, noise, snr_db)
    added = noisy.astype(np.float64) - speech
    realised = 10 * np.log10(np.square(speech, dtype=np.float64).sum() / np.square(added).sum())
    assert abs(realised - snr_db) < 1e-3
    assert noisy.dtype == np.float32 and np.corrcoef(added, noise)[0, 1] > 0.999


def test_digital_silence_stays_as_it_is(speech):
    silence = np.zeros_like(speech)
    assert_array_equal(mix(silence, speech, 5.0), silence)
    assert_array_equal(mix(speech, silence, 5.0), speech)


def test_what_is_drawn_is_a_part_of_a_recording(tmp_path):
    rng = np.random.default_rng(2)
    for name, length in (("long.wav", 9000), ("short.wav", 700)):
        # No value twice, so that a sample shows where it comes from.
        soundfile.write(tmp_path / name, rng.permutation(length).astype(np.int16), 16000)
    paths = (str(tmp_path / "long.wav"), str(tmp_path / "short.wav"))
    long, short = map(read_audio, paths)
    part = noise_of(paths, min_snr_db=3, max_snr_db=7)
    starts = []
    ratios = []
    for _ in range(100):
        noise, ratio = part.draw(2000, rng)
        ratios.append(ratio)
        assert noise.shape == (2000,)
        if not np.array_equal(noise, np.resize(short, 2000)):
            starts.append(int(np.flatnonzero(long[:7001] == noise[0])[0]))
            assert_array_equal(noise, long[starts[-1] : starts[-1] + 2000])
    assert 30 < len(starts) < 70 and min(starts) < 700 and max(starts) > 6300
    assert 3 <= min(ratios) < 3.3 and 6.7 < max(ratios) <= 7


def test_a_broken_recording_is_named_with_its_setting(tmp_path):
    (tmp_path / "x.wav").write_bytes(b"no audio")
    with pytest.raises(AsdfError) as caught:
        noise_of((str(tmp_path / "x.wav"),)).draw(2000, np.random.default_rng(0))
    start = (
        "a recording of augmentation.noise_folders cannot be used: "
        f"{tmp_path / 'x.wav'} is not audio"
    )
    assert str(caught.value).startswith(start)


def room(direct: int, length: int = 4000) -> np.ndarray:
    """Decaying noise after a direct sound at sample `direct`."""
    response = np.zeros(length, np.float32)
    tail = np.arange(length - direct)
    response[direct:] = (
        0.3 * np.random.default_rng(3).uniform(-1, 1, length - direct) * np.exp(-tail / 800)
    )
    response[direct] = 0.8
    return response


@pytest.mark.parametrize(("direct", "height"), [(0, 1.0), (0, 0.01), (500, 0.3), (7999, 2.0)])
def test_a_single_impulse_changes_nothing_wherever_it_is(speech, direct, height):
    response = np.zeros(8000, np.float32)
    response[direct] = height
    assert_allclose(reverberate(speech, response), speech, atol=1e-6)


def test_it_is_a_convolution_of_the_same_level(speech):
    response = room(direct=37)
    wet = reverberate(speech, response)
    wanted = np.convolve(speech.astype(np.float64), response)[37 : 37 + len(speech)]
    wanted *= np.linalg.norm(speech) / np.linalg.norm(wanted)
    assert wet.dtype == np.float32 and wet.shape == speech.shape
    assert_allclose(wet, wanted, atol=1e-5)
    assert_allclose(np.linalg.norm(wet), np.linalg.norm(speech), rtol=1e-6)
    assert np.abs(wet - speech).max() > 0.01


def test_digital_silence_stays_silent_in_a_room():
    silence = np.zeros(1000, np.float32)
    assert_array_equal(reverberate(silence, room(5)), silence)


def test_of_an_array_of_microphones_the_first_is_taken(tmp_path):
    response = room(10)
    soundfile.write(
        tmp_path / "array.wav", np.stack([response, -response], 1), 16000, subtype="FLOAT"
    )
    assert_array_equal(read_response(str(tmp_path / "array.wav")), response)
    soundfile.write(tmp_path / "fast.wav", response, 48000, subtype="FLOAT")
    part = Reverberation(augmentation(), tmp_path)
    part.responses = (str(tmp_path / "fast.wav"),)
    assert len(part.draw(np.random.default_rng(0))) == 1334


@pytest.mark.parametrize(
    ("content", "problem"),
    [(np.zeros(100), "is silent"), (np.array([1, np.nan]), "not finite"), (None, "no file")],
)
def test_a_response_that_is_none_is_named_with_its_setting(tmp_path, content, problem):
    path = tmp_path / "x.wav"
    if content is not None:
        soundfile.write(path, content, 16000, subtype="FLOAT")
    with pytest.raises(
        AsdfError, match=f"augmentation.reverberation_folders cannot be used: .*{problem}"
    ):
        read_response(str(path))
