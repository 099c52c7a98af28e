from __future__ import annotations

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.augmentation.acoustics import Reverberation, read_response, reverberate
from asdf.errors import AsdfError
from tests.augmentations import augmentation


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


def test_digital_silence_stays_as_it_is():
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
