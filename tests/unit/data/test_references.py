"""Clips of references: a stream of random numbers of their own, whoever reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from asdf.audio import read_audio
from asdf.data.batches import collate
from asdf.data.references import MeasuredReferences, ReferenceClips
from asdf.trials.reference_files import distinct_references
from asdf.trials.references import References
from tests.unit.data.conftest import BOOST, LENGTHS, OFF, clips

WORDS = ["1.wav", "0.wav;2.wav", "0.wav"]


@pytest.fixture
def paired(utterances):
    return replace(utterances, references=References.without_lines(WORDS))


def reference_clips(paired, seed: int = 0, position: str = "random") -> ReferenceClips:
    distinct = distinct_references(paired)
    # In the order in which they are named: 1, 0, 2.
    assert list(distinct.recordings.ids) == ["1.wav", "0.wav", "2.wav"]
    measured = MeasuredReferences(distinct, LENGTHS[[1, 0, 2]])
    return ReferenceClips(measured, 4000, OFF, seed, position)


def with_references(paired, seed: int = 0, rawboost=None):
    whole = clips(paired, seed, rawboost)
    whole.references = reference_clips(paired, seed)
    return whole


def test_a_reference_is_a_crop_of_a_recording_that_the_trial_names(paired):
    data = with_references(paired)
    short = read_audio(paired.path(1))
    for epoch in range(3):
        assert np.array_equal(data[epoch, 0].references, np.resize(short, (1, 4000)))
    long, exact = read_audio(paired.path(0)), read_audio(paired.path(2))
    starts = []
    chosen = []
    for epoch in range(100):
        (crop,) = data[epoch, 1].references
        chosen.append(np.array_equal(crop, exact))
        if not chosen[-1]:
            starts.append(int(np.flatnonzero(long[:2001] == crop[0])[0]))
            assert np.array_equal(crop, long[starts[-1] : starts[-1] + 4000])
    # One of both references per epoch, and crops from everywhere.
    assert 35 <= sum(chosen) <= 65 and min(starts) < 200 and max(starts) > 1800


def test_they_change_no_clip_and_follow_from_seed_epoch_and_trial(paired):
    plain, data = clips(paired, 3, BOOST), with_references(paired, 3, BOOST)
    again = with_references(paired, 3, BOOST)
    keys = [(epoch, index) for epoch in (1, 2) for index in range(3)]
    first = {key: data[key] for key in keys}
    for key in reversed(keys):
        assert np.array_equal(plain[key].samples, first[key].samples)
        assert np.array_equal(again[key].references, first[key].references)
    assert not np.array_equal(first[1, 2].references, first[2, 2].references)
    other = with_references(paired, 4, BOOST)[1, 2].references
    assert not np.array_equal(other, first[1, 2].references)


def test_they_are_cut_at_the_start_where_clips_are(paired):
    crop = reference_clips(paired, position="start").read((5, 2))
    assert np.array_equal(crop, read_audio(paired.path(0))[np.newaxis, :4000])


def test_a_batch_has_them_as_a_further_input(paired):
    data = with_references(paired)
    each = [data[1, index] for index in range(3)]
    batch = collate(each)
    assert batch.further["references"].shape == (3, 1, 4000)
    assert torch.equal(batch.further["references"][2], torch.from_numpy(each[2].references))
    assert collate([clips(paired)[1, 0]]).further == {}


def test_a_reference_that_cannot_be_read_is_the_error_of_its_clip(paired):
    data = with_references(paired)
    paired.path(1).write_bytes(b"no recording")
    assert data[1, 0].error is not None and "1.wav" in str(data[1, 0].error)


def test_what_scores_depend_on_changes_the_digest(paired):
    clips_of = reference_clips(paired).references
    other = replace(paired, references=References.without_lines(["1.wav", "2.wav;0.wav", "0.wav"]))
    changed = MeasuredReferences(distinct_references(other), clips_of.lengths)
    longer = replace(clips_of, lengths=clips_of.lengths + 1)
    assert len({clips_of.digest(), changed.digest(), longer.digest()}) == 3
