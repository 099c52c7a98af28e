"""Augmented and vocoded clips hold real speech to their last sample, and are the same for a key.

Scoring never augments.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.testing import assert_array_equal

from asdf.audio import crop_start, read_audio
from asdf.audio.augmentation import Chain, open_chain, source_samples
from asdf.audio.augmentation.filtering import Speed, at_speed
from asdf.audio.vocoding import Vocoder, Vocoders, open_vocoders
from asdf.data.datasets import TrainingClips
from asdf.data.sampler_orders import Copies, add_vocoded_copies, append_copies
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import VOCODERS, RawBoost, Sections, SpeechActivity, Vocoding
from tests.augmentations import augmentation
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Plain
from tests.unit.audio.test_rawboost import augmented
from tests.unit.data.conftest import assert_workers_change_no_sample

LENGTHS = np.array([9000, 1500, 4000])
SIZE = 4000
BOOST = RawBoost(enabled=True, algo=4, applyingRatio=0.7)


@pytest.fixture
def utterances(tmp_path):
    *waveforms, background = noise_waveforms([*LENGTHS, 20000])
    (tmp_path / "noise").mkdir()
    soundfile.write(tmp_path / "noise" / "n.wav", background, 16000)
    return write_recordings(tmp_path, waveforms, labels=(1, 0, 0))


@pytest.fixture
def settings(utterances, tmp_path) -> Sections:
    settings = augmentation(
        "speed",
        "noise",
        "reverberation",
        "codec",
        codecs=("mu-law", "opus", "vorbis"),
        noise_folders=("noise",),
        reverberation_folders=("noise",),
    )
    soundfile.write(
        tmp_path / "noise" / "r.wav", np.exp(-np.arange(800) / 90) * np.cos(np.arange(800)), 16000
    )
    return settings


@pytest.fixture
def chain(settings, tmp_path) -> Chain:
    return open_chain(settings, tmp_path)


def clips(utterances, augmentation=None, seed=0, rawboost=None, position="random") -> TrainingClips:
    return TrainingClips(
        utterances,
        LENGTHS,
        SIZE,
        rawboost or RawBoost(),
        SpeechActivity(),
        seed,
        position,
        augmentation or Chain(),
    )


def at_one_speed(speed: float) -> Speed:
    return Speed(augmentation(speed_probability=1.0, speed_min=speed, speed_max=speed), Path())


def test_without_a_chain_nothing_is_drawn(utterances):
    for key in ((1, 0), (1, 1), (2, 2)):
        draws, length = generator(0, "clip", *key), int(LENGTHS[key[1]])
        start = crop_start(length, SIZE, draws)
        crop = np.resize(read_audio(utterances.path(key[1]), start, min(length, SIZE)), SIZE)
        wanted = augmented(crop, BOOST, draws)
        for nothing in (None, Chain()):
            assert_array_equal(clips(utterances, nothing, rawboost=BOOST)[key].samples, wanted)


@pytest.mark.parametrize(("speed", "percent"), [(0.9, 90), (1.1, 110)])
def test_a_clip_at_another_speed_is_full_of_speech(utterances, speed, percent):
    part = at_one_speed(speed)
    data = clips(utterances, Chain((part,)))
    taken = source_samples(SIZE, percent)
    starts = []
    for epoch in range(1, 25):
        for index, length in enumerate(LENGTHS):
            draws = generator(0, "clip", epoch, index)
            assert part.draw(draws) == percent
            start = crop_start(int(length), taken, draws)
            source = np.resize(read_audio(utterances.path(index))[start : start + taken], taken)
            assert_array_equal(data[epoch, index].samples, at_speed(source, percent)[:SIZE])
            assert (
                data[epoch, index].samples.shape == (SIZE,) and start + min(taken, length) <= length
            )
            starts.append(start)
    assert min(starts[::3]) < 500 and max(starts[::3]) > 9000 - taken - 500
    at_start = clips(utterances, Chain((part,)), position="start")[1, 0].samples
    assert_array_equal(at_start, at_speed(read_audio(utterances.path(0), 0, taken), percent)[:SIZE])


def clips_of_keys(data: TrainingClips, again: TrainingClips, keys) -> dict:
    """The clips of keys, which `again` has as well, in whatever order they are read."""
    clips = {key: data[key].samples for key in keys}
    for key in reversed(clips):
        assert_array_equal(again[key].samples, clips[key])
    assert all(clip.shape == (SIZE,) and clip.dtype == np.float32 for clip in clips.values())
    return clips


def test_a_clip_follows_from_seed_epoch_and_utterance_alone(utterances, chain):
    keys = [(epoch, index) for epoch in range(1, 9) for index in range(3)]
    data, again = (clips(utterances, chain, 3, BOOST) for _ in range(2))
    wanted = clips_of_keys(data, again, keys)
    plain = clips(utterances, None, 3, BOOST)
    changed = [not np.array_equal(plain[key].samples, clip) for key, clip in wanted.items()]
    assert np.mean(changed) > 0.8
    assert not np.array_equal(clips(utterances, chain, 4, BOOST)[1, 0].samples, wanted[1, 0])


def test_workers_change_no_sample(utterances, chain, monkeypatch):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    copied = append_copies(utterances, COPIES)
    keys = [[(epoch, row) for row in range(7)] for epoch in (1, 2)]
    assert_workers_change_no_sample(vocoded_clips(copied, chain=chain), keys, workers=2)


def test_a_broken_recording_of_noise_comes_out_as_the_item(utterances, tmp_path):
    settings = augmentation("noise", noise_probability=1.0, noise_folders=("noise",))
    data = clips(utterances, open_chain(settings, tmp_path))
    (tmp_path / "noise" / "n.wav").write_bytes(b"no audio")
    error = data[1, 0].error
    assert isinstance(error, AsdfError) and "augmentation.noise_folders" in str(error)


def test_speech_activity_comes_before_the_speed(tmp_path):
    speech = np.random.default_rng(1).uniform(-0.5, 0.5, 6400)
    silence = np.zeros(8000)
    utterances = write_recordings(tmp_path, [np.concatenate([silence, speech, silence])], [1])
    fast = Chain((at_one_speed(1.6),))
    sad = SpeechActivity("endpoint", hangover_s=0.0)
    data = TrainingClips(utterances, np.array([6400]), SIZE, RawBoost(), sad, 0, "start", fast)
    taken = read_audio(utterances.path(0))[8000 : 8000 + source_samples(SIZE, 160)]
    assert_array_equal(data[1, 0].samples, at_speed(taken, 160)[:SIZE])


def test_scores_are_the_same_with_augmentation_on(utterances, settings):
    augmented_section = settings.augmentation
    settings = Sections()
    settings.computing.network_dataloader_workers = 0
    settings.network.train_clip_size = (
        settings.network.min_evaluation_utterance_length_in_samples
    ) = SIZE
    torch.manual_seed(0)
    network = Plain(settings)

    def score() -> np.ndarray:
        scorer = build_list_scorer(network, settings, World())
        return score_list(scorer, utterances, LENGTHS, settings, World(), StopRequest())

    without = score()
    settings.augmentation = replace(
        augmented_section, probability=1.0, noise_probability=1.0, reverberation_probability=1.0
    )
    assert_array_equal(score(), without)
    assert len(np.unique(without)) == 3


# Rows 3 to 6: the bona fide utterances 0 and 1, copied by each of the two.
SOURCES = np.array([0, 1, 0, 1])
COPIES = Copies(SOURCES, np.array([0, 0, 1, 1]), ("backwards", "lpc"))
ROWS = np.concatenate([np.arange(3), SOURCES])


class Backwards(Vocoder):
    """Played backwards, with a drawn polarity."""

    def vocode(self, samples, rng):
        return samples[::-1] * rng.choice((-1.0, 1.0))


class Broken(Vocoder):
    def vocode(self, samples, rng):
        return samples[1:]


@pytest.fixture
def copied_list(tmp_path):
    recordings = write_recordings(tmp_path, noise_waveforms(LENGTHS), labels=(1, 1, 0))
    return append_copies(recordings, COPIES)


def vocoders() -> Vocoders:
    settings = Sections()
    settings.vocoding.vocoders = ("lpc",)
    lpc = open_vocoders(settings, None).by_name["lpc"]
    return Vocoders({"backwards": Backwards(settings), "lpc": lpc})


def vocoded_clips(copied_list, seed=0, rawboost=None, chain=None) -> TrainingClips:
    return TrainingClips(
        copied_list,
        LENGTHS[ROWS],
        SIZE,
        rawboost or RawBoost(),
        SpeechActivity(),
        seed,
        augmentation=chain or Chain(),
        vocoders=vocoders(),
    )


def backwards(speech: np.ndarray, epoch: int, row: int) -> np.ndarray:
    sign = generator(0, "vocoder", epoch, row).choice((-1.0, 1.0))
    steps = np.rint(sign * speech[::-1].astype(float) * 2**15)
    return (steps / 2**15).astype(np.float32)


def test_recordings_stay_the_clips_that_they_are_without_copies(copied_list):
    plain = TrainingClips(
        copied_list.select(np.arange(3)), LENGTHS, SIZE, BOOST, SpeechActivity(), 0
    )
    for row in range(3):
        with_copies = vocoded_clips(copied_list, rawboost=BOOST)[1, row].samples
        assert_array_equal(with_copies, plain[1, row].samples)


def test_the_crop_is_copied_and_then_repeated_and_boosted(copied_list):
    data = vocoded_clips(copied_list, rawboost=BOOST)
    for epoch in range(1, 5):
        for row in (3, 4):
            draws = generator(0, "clip", epoch, row)
            start = crop_start(int(LENGTHS[ROWS[row]]), SIZE, draws)
            speech = read_audio(copied_list.path(row), start, SIZE)
            copy = np.resize(backwards(speech, epoch, row), SIZE)
            assert_array_equal(data[epoch, row].samples, augmented(copy, BOOST, draws))


def test_the_chain_comes_after_the_vocoder(copied_list):
    settings = augmentation("speed", speed_probability=1.0, speed_min=1.1, speed_max=1.1)
    part = Speed(settings, Path())
    data = vocoded_clips(copied_list, chain=Chain((part,)))
    draws = generator(0, "clip", 1, 3)
    assert part.draw(draws) == 110
    taken = (SIZE - 1) * 110 // 100 + 1
    start = crop_start(int(LENGTHS[0]), taken, draws)
    copy = backwards(read_audio(copied_list.path(3), start, taken), 1, 3)
    assert_array_equal(data[1, 3].samples, at_speed(copy, 110)[:SIZE])


def test_a_copy_follows_from_seed_epoch_and_row_alone(copied_list):
    keys = [(epoch, row) for epoch in (1, 2) for row in range(7)]
    data, again = (vocoded_clips(copied_list, 3) for _ in range(2))
    wanted = clips_of_keys(data, again, keys)
    # The short one is always the same crop: only the vocoder's draws differ.
    assert_array_equal(wanted[1, 1], wanted[2, 1])
    assert not np.array_equal(wanted[1, 6], wanted[2, 6])
    assert not np.array_equal(vocoded_clips(copied_list, 4)[1, 6].samples, wanted[1, 6])


def test_all_of_the_settings_vocoders_make_clips(copied_list):
    settings = Sections()
    settings.vocoding = Vocoding(tuple(VOCODERS), 4)
    recordings = copied_list.select(np.arange(3))
    copied, rows = add_vocoded_copies(recordings, settings.vocoding, 0)
    assert len(copied) == 3 + 4 * 2
    data = TrainingClips(
        copied,
        LENGTHS[rows],
        SIZE,
        RawBoost(),
        SpeechActivity(),
        0,
        vocoders=open_vocoders(settings, None),
    )
    made = [data[1, row] for row in range(11)]
    assert [clip.error for clip in made] == [None] * 11
    # No two are the same.
    assert len({clip.samples.tobytes() for clip in made}) == 11


def test_the_error_of_a_vocoder_comes_out_as_the_item(copied_list):
    data = vocoded_clips(copied_list)
    data.vocoders = Vocoders({"backwards": Broken(Sections())})
    assert data[1, 0].error is None
    message = str(data[1, 3].error)
    assert f"backwards.vocode, for the recording {copied_list.path(0)}, returned" in message
