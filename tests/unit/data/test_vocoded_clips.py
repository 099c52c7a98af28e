"""Vocoded training clips: copied before all else is done to them, the same for a key."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio import crop_start, read_audio
from asdf.audio.augmentation import Chain
from asdf.audio.augmentation.filtering import Speed, at_speed
from asdf.audio.vocoding import Vocoder, Vocoders, open_vocoders
from asdf.data.datasets import TrainingClips
from asdf.data.sampler_orders import Copies, add_vocoded_copies, append_copies
from asdf.runs.seeds import generator
from asdf.settings.sections import VOCODERS, RawBoost, Sections, SpeechActivity, Vocoding
from tests.augmentations import augmentation
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.audio.test_rawboost import augmented
from tests.unit.data.conftest import assert_workers_change_no_sample

LENGTHS = np.array([9000, 1500, 4000])
SIZE = 4000
BOOST = RawBoost(enabled=True, algo=4, applyingRatio=0.7)
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
def utterances(tmp_path):
    recordings = write_recordings(tmp_path, noise_waveforms(LENGTHS), labels=(1, 1, 0))
    return append_copies(recordings, COPIES)


def vocoders() -> Vocoders:
    settings = Sections()
    settings.vocoding.vocoders = ("lpc",)
    lpc = open_vocoders(settings, None).by_name["lpc"]
    return Vocoders({"backwards": Backwards(settings), "lpc": lpc})


def clips(utterances, seed=0, rawboost=None, chain=None) -> TrainingClips:
    return TrainingClips(
        utterances,
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


def test_recordings_stay_the_clips_that_they_are_without_copies(utterances):
    plain = TrainingClips(
        utterances.select(np.arange(3)), LENGTHS, SIZE, BOOST, SpeechActivity(), 0
    )
    for row in range(3):
        with_copies = clips(utterances, rawboost=BOOST)[1, row].samples
        assert_array_equal(with_copies, plain[1, row].samples)


def test_the_crop_is_copied_and_then_repeated_and_boosted(utterances):
    data = clips(utterances, rawboost=BOOST)
    for epoch in range(1, 5):
        for row in (3, 4):
            draws = generator(0, "clip", epoch, row)
            start = crop_start(int(LENGTHS[ROWS[row]]), SIZE, draws)
            speech = read_audio(utterances.path(row), start, SIZE)
            copy = np.resize(backwards(speech, epoch, row), SIZE)
            assert_array_equal(data[epoch, row].samples, augmented(copy, BOOST, draws))


def test_the_chain_comes_after_the_vocoder(utterances):
    settings = augmentation("speed", speed_probability=1.0, speed_min=1.1, speed_max=1.1)
    part = Speed(settings, Path())
    data = clips(utterances, chain=Chain((part,)))
    draws = generator(0, "clip", 1, 3)
    assert part.draw(draws) == 110
    taken = (SIZE - 1) * 110 // 100 + 1
    start = crop_start(int(LENGTHS[0]), taken, draws)
    copy = backwards(read_audio(utterances.path(3), start, taken), 1, 3)
    assert_array_equal(data[1, 3].samples, at_speed(copy, 110)[:SIZE])


def test_a_copy_follows_from_seed_epoch_and_row_alone(utterances):
    first = clips(utterances, 3)
    wanted = {(epoch, row): first[epoch, row].samples for epoch in (1, 2) for row in range(7)}
    again = clips(utterances, 3)
    for key in reversed(wanted):
        assert_array_equal(again[key].samples, wanted[key])
    assert all(clip.shape == (SIZE,) and clip.dtype == np.float32 for clip in wanted.values())
    # The short one is always the same crop: only the vocoder's draws differ.
    assert_array_equal(wanted[1, 1], wanted[2, 1])
    assert not np.array_equal(wanted[1, 6], wanted[2, 6])
    assert not np.array_equal(clips(utterances, 4)[1, 6].samples, wanted[1, 6])


def test_workers_change_no_sample(utterances, monkeypatch):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    keys = [[(epoch, row) for row in range(7)] for epoch in (1, 2)]
    assert_workers_change_no_sample(clips(utterances), keys, workers=2)


def test_all_of_the_settings_vocoders_make_clips(utterances):
    settings = Sections()
    settings.vocoding = Vocoding(tuple(VOCODERS), 4)
    recordings = utterances.select(np.arange(3))
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


def test_the_error_of_a_vocoder_comes_out_as_the_item(utterances):
    data = clips(utterances)
    data.vocoders = Vocoders({"backwards": Broken(Sections())})
    assert data[1, 0].error is None
    message = str(data[1, 3].error)
    assert f"backwards.vocode, for the recording {utterances.path(0)}, returned" in message
