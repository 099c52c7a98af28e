"""The second detector: its result depends on the recording alone.

Skipped where silero-vad is not installed.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from asdf.audio import cut_to_speech, speech_mask
from asdf.audio.speech import check_detector, identity
from asdf.audio.speech_check import WINDOW, speech_probabilities
from asdf.demo.voices import draw_speaker, speak
from asdf.errors import UsageError
from asdf.settings.sections import SpeechActivity
from tests.unit.audio.test_speech import stretches

installed = pytest.mark.skipif(
    find_spec("silero_vad") is None, reason="silero-vad is not installed"
)
SILERO = SpeechActivity("on", hangover_s=0.0, detector="silero")


@pytest.fixture(scope="module")
def recording() -> np.ndarray:
    """A second of hiss, two of a voice, a second of loud noise."""
    rng = np.random.default_rng(3)
    voice = speak(draw_speaker(rng), 2.0, rng)
    hiss, noise = 0.001 * rng.standard_normal(16000), 0.3 * rng.standard_normal(16000)
    return np.concatenate([hiss, 0.5 * voice / np.abs(voice).max(), noise]).astype(np.float32)


@installed
def test_it_distinguishes_speech_from_loud_noise(recording):
    mask = speech_mask(recording, SILERO)
    assert mask.shape == recording.shape and mask.dtype == bool
    parts = [mask[a:b].mean() for a, b in ((0, 16000), (16000, 48000), (50000, 64000))]
    assert parts[0] == 0 and parts[1] > 0.85 and parts[2] == 0
    assert speech_mask(recording, SpeechActivity("on"))[50000:].all()


@installed
def test_what_was_heard_before_does_not_matter_nor_does_the_thread(recording):
    alone = speech_probabilities(recording)
    assert len(np.unique(alone)) > 50
    speech_probabilities(recording[::-1].copy())
    assert_array_equal(speech_probabilities(recording), alone)
    parts = [recording, recording[20000:], recording[::-1].copy()] * 4
    wanted = [speech_probabilities(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for result, expected in zip(pool.map(speech_probabilities, parts), wanted, strict=True):
            assert_array_equal(result, expected)


@installed
def test_it_leaves_torchs_threads_as_they_are():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with ThreadPoolExecutor(1) as pool:  # a new thread loads a network of its own
            pool.submit(speech_probabilities, np.zeros(WINDOW, np.float32)).result()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@installed
@pytest.mark.parametrize("length", [1, WINDOW - 1, WINDOW, WINDOW + 1])
def test_any_length_has_a_mask(recording, length):
    assert speech_mask(recording[30000 : 30000 + length], SILERO).shape == (length,)


@installed
def test_threshold_and_hangover(recording):
    everything = SpeechActivity("on", hangover_s=0.0, detector="silero", silero_threshold=0.0)
    assert speech_mask(recording, everything).all()
    probabilities = speech_probabilities(recording)
    strict = SpeechActivity("on", hangover_s=0.0, detector="silero", silero_threshold=0.9)
    assert_array_equal(
        speech_mask(recording, strict), np.repeat(probabilities >= 0.9, WINDOW)[: len(recording)]
    )
    longer = SpeechActivity("on", hangover_s=0.064, detector="silero", silero_threshold=0.9)
    last = np.flatnonzero(probabilities >= 0.9)[-1]
    assert stretches(recording, strict)[-1][1] == (last + 1) * WINDOW
    assert stretches(recording, longer)[-1][1] == (last + 3) * WINDOW


@installed
def test_a_recording_without_speech_is_left_whole():
    silence = np.zeros(5000, np.float32)
    assert cut_to_speech(silence, SILERO) is silence


@installed
def test_the_version_of_the_network_is_part_of_what_a_measurement_depends_on():
    assert identity(SILERO) == f"on, silero {version('silero-vad')}, 0.5, 0.0"


def test_without_the_package_it_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    message = (
        "sad.detector = 'silero' needs the package silero-vad, version 5 or newer, and "
        "it is not installed: pip install 'silero-vad>=5', or use sad.detector = 'energy'."
    )
    for refuses in (check_detector, identity):
        with pytest.raises(UsageError) as caught:
            refuses(SILERO)
        assert str(caught.value) == message
        refuses(SpeechActivity("on"))
        refuses(SpeechActivity("off", detector="silero"))


def test_what_decides_and_nothing_else_is_part_of_the_identity():
    assert identity(SpeechActivity("off", 20.0)) == identity(SpeechActivity())
    same = SpeechActivity("on", silero_threshold=0.9)
    assert identity(same) == identity(SpeechActivity("on")) == "on, energy, 30.0, 0.1"
    others = (
        SpeechActivity("endpoint"),
        SpeechActivity("on", 20.0),
        SpeechActivity("on", hangover_s=0.2),
    )
    assert len({identity(sad) for sad in (same, *others)}) == 4
