"""Arrays become what a file of them would be read as, or are refused."""

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import read_audio
from asdf.errors import UsageError
from asdf.scoring.recordings import as_waveform

NOISE = np.random.default_rng(0).uniform(-0.9, 0.9, (5000, 2))


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_any_rate_is_read_as_a_file_is(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", NOISE.astype(np.float32), rate, subtype="FLOAT")
    expected = read_audio(tmp_path / "a.wav")
    for array in (NOISE, NOISE.T, NOISE.astype(np.float32)):
        waveform = as_waveform(array, rate)
        assert waveform.dtype == np.float32
        assert_allclose(waveform, expected, atol=1e-6)


def test_integers_have_their_own_full_scale():
    assert_array_equal(
        as_waveform(np.array([-32768, 16384, 1], np.int16), 16000), [-1, 0.5, 2**-15]
    )
    assert_array_equal(as_waveform(np.array([-(2**31), 2**30], np.int32), 16000.0), [-1, 0.5])


@pytest.mark.parametrize("rate", [None, 0, -16000, 16000.5, "fast", float("nan")])
def test_a_rate_is_needed(rate):
    with pytest.raises(UsageError, match="sample_rate in Hz"):
        as_waveform(NOISE[:, 0], rate)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([0.1, np.nan]), "not finite"),
        (np.array([0.1, -np.inf]), "not finite"),
        (np.zeros(0), "no samples"),
        (np.array([0.0, 20000.0]), "full scale of floats is 1"),
        (np.zeros((24, 16000)), "not one recording"),
        (np.zeros((2, 3, 100)), "not one recording"),
        (np.zeros((2, 2)), "not one recording"),
        (np.array(0.5), "not one recording"),
        (np.zeros(100, np.uint16), "type uint16"),
        (np.array(["a.wav"]), "cannot be scored"),
        (np.zeros(100, complex), "cannot be scored"),
    ],
)
def test_what_cannot_be_meant_is_refused(array, message):
    with pytest.raises(UsageError, match=message):
        as_waveform(array, 16000)
