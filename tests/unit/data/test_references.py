"""References beside recordings: the column of a list, empty cells, lists without it."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from asdf.data.batches import REFERENCES, collate
from asdf.data.datasets import References, TrainingClips
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.trial_list import TrialList, join
from tests.unit.conftest import sound as sound_of

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
