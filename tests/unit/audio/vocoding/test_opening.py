"""A user's own vocoder: what is wrong with it is said; it goes to other processes."""

from __future__ import annotations

import multiprocessing
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.vocoding import Vocoder, Vocoders, open_vocoders
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import VOCODERS, Sections

SPEECH = np.random.default_rng(0).uniform(-0.3, 0.3, 500).astype(np.float32)

OWN = """
import numpy as np
from asdf.audio.vocoding import Vocoder


class Backwards(Vocoder):
    def __init__(self, settings):
        self.gain = settings.vocoding.copies

    def vocode(self, samples, rng):
        return self.gain * samples[::-1] * rng.choice((-1.0, 1.0))


class Fragile(Backwards):
    def __init__(self, settings):
        self.table = {}[0]


class Open(Backwards):
    def __init__(self, settings):
        self.gain = lambda samples: samples


class Silent(Vocoder):
    def vocoder(self, samples, rng):
        return samples


class NotAVocoder:
    pass
"""


class Returning(Vocoder):
    """Returns what it was made with."""

    def __init__(self, value):
        self.value = value

    def vocode(self, samples, rng):
        return self.value


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a user's vocoders, which is none of those where Python looks for modules."""
    (tmp_path / "my_vocoders_of_a_test.py").write_text(OWN)
    # Another test's module of that name.
    monkeypatch.delitem(sys.modules, "my_vocoders_of_a_test", raising=False)
    return tmp_path


def open_named(folder, *names: str) -> Vocoders:
    settings = Sections()
    settings.vocoding.vocoders = names
    return open_vocoders(settings, folder)


def test_without_names_there_are_none():
    assert Vocoders() == open_vocoders(Sections(), None)


def test_ones_own_copy_gets_the_level_of_the_speech(own):
    name = "my_vocoders_of_a_test.Backwards"
    copy = open_named(own, name).copy(name, SPEECH, np.random.default_rng(1))
    sign = np.random.default_rng(1).choice((-1.0, 1.0))
    steps = np.rint(sign * SPEECH[::-1].astype(float) * 2**15)
    assert_array_equal(copy, (steps / 2**15).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_vocoders_of_a_test.Backward", "has no class 'Backward'"),
        ("my_vocoders_of_a_test.NotAVocoder", "Vocoder, which is required"),
        ("my_vocoders_of_a_test.Silent", "does not implement vocode, which Vocoder requires."),
        ("my_vocoders_of_a_test.Fragile", "cannot be made: KeyError: 0"),
    ],
)
def test_a_class_that_does_not_fit_is_refused(own, name, message):
    with pytest.raises(AsdfError) as caught:
        open_named(own, name)
    text = str(caught.value)
    assert text.startswith("vocoding.vocoders: ") and message in text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.0] * 500, "returned list, not a numpy array"),
        (np.zeros(499), r"returned samples of shape \(499,\) for speech of shape \(500,\)"),
        (np.zeros(500, np.int16), "returned samples of type int16"),
        (np.full(500, np.nan), "returned samples that are not finite"),
    ],
)
def test_what_is_no_copy_is_refused(value, message):
    with pytest.raises(
        AsdfError, match=f"vocoding.vocoders: own.vocode, for the recording x, {message}"
    ):
        Vocoders({"own": Returning(value)}).copy("own", SPEECH, np.random.default_rng(1), "x")


def test_what_cannot_be_sent_to_other_processes_is_refused(own):
    with pytest.raises(UsageError, match="Open cannot be sent to the loader's processes"):
        open_named(own, "my_vocoders_of_a_test.Open")


def test_a_silent_copy_stays_silent():
    silent = Vocoders({"own": Returning(np.zeros(500))})
    assert not silent.copy("own", SPEECH, np.random.default_rng(1)).any()


def test_all_vocoders_go_to_other_processes_and_do_the_same_there(own):
    name = "my_vocoders_of_a_test.Backwards"
    vocoders = open_named(own, *VOCODERS, name)
    here = [copied(vocoders, each) for each in (*VOCODERS, name)]
    sent = pickle.loads(pickle.dumps(vocoders))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.starmap(copied, [(sent, each) for each in (*VOCODERS, name)])
    for mine, theirs in zip(here, there, strict=True):
        assert_array_equal(mine, theirs)


def copied(vocoders: Vocoders, name: str) -> np.ndarray:
    return vocoders.copy(name, SPEECH, np.random.default_rng(1))
