"""Clips and whole utterances: the same samples whoever reads them, in whatever order."""

import numpy as np
import torch

from asdf.audio import read_audio
from asdf.data.datasets import TrainingClips, WholeUtterances
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.settings.sections import RawBoost, SpeechActivity
from tests.recordings import write_recordings
from tests.unit.data.conftest import BOOST, OFF, clips


def test_a_clip_is_a_part_of_the_recording_or_its_repetition(utterances):
    long, short, exact = (clips(utterances)[1, index].samples for index in range(3))
    whole = read_audio(utterances.path(0))
    starts = [s for s in range(2001) if np.array_equal(whole[s : s + 4000], long)]
    assert len(starts) == 1 and long.dtype == np.float32
    assert np.array_equal(short, np.resize(read_audio(utterances.path(1)), 4000))
    assert np.array_equal(exact, read_audio(utterances.path(2)))


def test_a_clip_follows_from_seed_epoch_and_utterance_alone(utterances):
    first = clips(utterances, 3, BOOST)
    wanted = {(epoch, index): first[epoch, index].samples for epoch in (1, 2) for index in range(3)}
    again = clips(utterances, 3, BOOST)
    for key in reversed(wanted):
        assert np.array_equal(again[key].samples, wanted[key])
    assert not np.array_equal(wanted[1, 0], wanted[2, 0])
    assert not np.array_equal(clips(utterances, 4, BOOST)[1, 0].samples, wanted[1, 0])


def test_crops_are_spread_over_the_whole_recording(utterances):
    whole = read_audio(utterances.path(0))
    data = clips(utterances)
    starts = [
        int(np.flatnonzero(whole[:2001] == data[epoch, 0].samples[0])[0]) for epoch in range(200)
    ]
    assert min(starts) < 100 and max(starts) > 1900 and abs(np.mean(starts) - 1000) < 150


def test_rawboost_reaches_its_part_of_the_clips(utterances):
    plain, boosted = clips(utterances), clips(utterances, rawboost=BOOST)
    changed = [
        not np.array_equal(plain[epoch, 2].samples, boosted[epoch, 2].samples)
        for epoch in range(200)
    ]
    assert 0.6 < np.mean(changed) < 0.8


def test_speech_activity_detection_comes_before_the_crop(tmp_path):
    speech = np.random.default_rng(1).uniform(-0.5, 0.5, 3200)
    silence = np.zeros(8000)
    utterances = write_recordings(tmp_path, [np.concatenate([silence, speech, silence])], [1])
    sad = SpeechActivity("endpoint", hangover_s=0.0)
    clip = TrainingClips(utterances, np.array([3200]), 3200, RawBoost(), sad, 0)[1, 0].samples
    assert np.array_equal(clip, read_audio(utterances.path(0))[8000:11200])
    assert np.array_equal(WholeUtterances(utterances, sad)[0, 6400].samples, np.tile(clip, 2))


def test_a_whole_utterance_has_as_many_samples_as_requested(utterances):
    data = WholeUtterances(utterances, OFF)
    whole = read_audio(utterances.path(1))
    assert np.array_equal(data[1, 1500].samples, whole) and np.array_equal(
        data[1, 1000].samples, whole[:1000]
    )
    assert np.array_equal(data[1, 3200].samples, np.concatenate([whole, whole, whole[:200]]))


def test_reading_draws_nothing_from_the_networks_generator(utterances):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    list(BatchLoader(clips(utterances), 0, World()).batches([[(1, 0)]]))
    assert torch.equal(torch.get_rng_state(), before)
