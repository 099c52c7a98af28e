"""Clips and whole utterances: the same samples whoever reads them; references; own augmentation."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asdf.audio import read_audio
from asdf.audio.augmentation import open_chain
from asdf.data.batches import REFERENCES, collate
from asdf.data.datasets import References, TrainingClips, WholeUtterances
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.trial_list import TrialList, join
from tests.augmentations import augmentation
from tests.recordings import write_recordings
from tests.unit.conftest import sound as sound_of
from tests.unit.data.conftest import LENGTHS, OFF, assert_workers_change_no_sample, clips


def test_a_clip_is_a_part_of_the_recording_or_its_repetition(utterances):
    long, short, exact = (clips(utterances)[1, index].samples for index in range(3))
    whole = read_audio(utterances.path(0))
    starts = [s for s in range(2001) if np.array_equal(whole[s : s + 4000], long)]
    assert len(starts) == 1 and long.dtype == np.float32
    assert np.array_equal(short, np.resize(read_audio(utterances.path(1)), 4000))
    assert np.array_equal(exact, read_audio(utterances.path(2)))


def test_crops_are_spread_over_the_whole_recording(utterances):
    whole = read_audio(utterances.path(0))
    data = clips(utterances)
    starts = [
        int(np.flatnonzero(whole[:2001] == data[epoch, 0].samples[0])[0]) for epoch in range(200)
    ]
    assert min(starts) < 100 and max(starts) > 1900 and abs(np.mean(starts) - 1000) < 150


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


SAD = SpeechActivity()


def sound(samples: int, seed: int) -> np.ndarray:
    return sound_of(samples, seed).astype(np.float32)


@pytest.fixture
def listed(tmp_path):
    for number in range(2):
        soundfile.write(tmp_path / f"{number}.wav", sound(4000, number), 16000, subtype="FLOAT")
    columns = {"reference": ["1.wav", ""]}
    return TrialList(["0.wav", "1.wav"], [1, 0], columns=columns, name="a", folder=tmp_path)


def test_a_reference_is_repeated_or_cut_and_zeros_without_one(listed):
    known = sound(4000, 1)
    references = References(listed, SAD)
    assert np.array_equal(references[0, 3000].samples, known[:3000])
    assert np.array_equal(references[0, 6000].samples, np.tile(known, 2)[:6000])
    assert not references[1, 6000].samples.any()
    without = TrialList(listed.ids, listed.labels, name="b", folder=listed.folder)
    assert not References(without, SAD)[0, 100].samples.any()
    joined = References(join([without, listed]), SAD)
    assert not joined[0, 3000].samples.any()
    assert np.array_equal(joined[2, 3000].samples, known[:3000])


def test_training_clips_have_references_of_their_length(listed):
    lengths = np.array([4000, 4000])
    references = References(listed, SAD)
    clips = TrainingClips(listed, lengths, 2000, RawBoost(), SAD, 0, references=references)
    batch = collate([clips[1, 0], clips[1, 1]])
    assert batch.further[REFERENCES].shape == batch.samples.shape == (2, 2000)
    assert np.array_equal(batch.further[REFERENCES][0], sound(4000, 1)[:2000])
    alone = TrainingClips(listed, lengths, 2000, RawBoost(), SAD, 0)
    assert np.array_equal(alone[1, 0].samples, clips[1, 0].samples)


def test_a_reference_that_cannot_be_read_is_the_error_of_its_clip(listed):
    (listed.folder / "1.wav").write_bytes(b"RIFF")
    assert "1.wav" in str(References(listed, SAD)[0, 100].error)


# With a module of its own behind it, and a class of that module among its attributes.
TILTS = """
from asdf.audio.augmentation import Part
from tilting import Tilt

class Tilted(Part):
    probability = 0.8

    def __init__(self, settings, base):
        self.tilt = Tilt(0.5)

    def apply(self, clip, rng):
        if clip.max() > 2:
            raise ValueError("too loud")
        return self.tilt(clip, rng.random())
"""
TILTING = """
import numpy as np

class Tilt:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, clip, level):
        before = np.concatenate([clip[:1], clip[:-1]])
        return (clip - self.scale * level * before).astype(np.float32)
"""
TILTED_KEYS = [[(epoch, index) for index in range(3)] for epoch in range(1, 5)]


@pytest.fixture
def tilted(utterances: TrialList, tmp_path: Path) -> TrainingClips:
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "tilts.py").write_text(TILTS)
    (folder / "tilting.py").write_text(TILTING)
    for module in ("tilts", "tilting"):
        sys.modules.pop(module, None)
    chain = open_chain(augmentation("tilts.Tilted", "time_mask"), tmp_path, folder)
    return TrainingClips(utterances, LENGTHS, 4000, RawBoost(), OFF, 0, augmentation=chain)


@pytest.fixture
def start_method(request: pytest.FixtureRequest) -> Iterator[str]:
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.slow_but("fork", "forkserver")
@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"], indirect=True)
def test_workers_import_what_lies_next_to_the_recipe(
    tilted: TrainingClips, start_method: str
) -> None:
    assert_workers_change_no_sample(tilted, TILTED_KEYS)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_part_comes_out_as_one_message_with_the_recording(
    tilted: TrainingClips, utterances: TrialList, workers: int
) -> None:
    (part, _) = tilted.augmentation.parts
    part.tilt.scale = np.inf
    with pytest.raises(AsdfError) as caught:
        list(BatchLoader(tilted, workers, World()).batches([[(1, 2), (2, 2), (3, 2)]]))
    message = str(caught.value)
    start = f"augmentation.chain: tilts.Tilted.apply, for the recording {utterances.path(2)}, "
    assert message.startswith(start + "returned ")
    assert "not finite numbers" in message
