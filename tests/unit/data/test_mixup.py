"""A mixed clip is the weighted sum of two clips of its epoch, wherever the sum is computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.rawboost_batch import Unboosted
from asdf.data.batches import Mixup, collate, find_mixup
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost
from asdf.trials.trial_list import TrialList
from tests.augmentations import augmentation
from tests.unit.data.conftest import BOOST, LENGTHS, OFF, assert_workers_change_no_sample

MIXUP = Mixup(seed=3, probability=0.6, alpha=1.0, utterances=3)
KEYS = [[(epoch, (epoch + index) % 3) for index in range(3)] for epoch in range(1, 7)]


def clips_of(
    utterances: TrialList, mixup: Mixup | None, rawboost: RawBoost | None = None
) -> TrainingClips:
    boost = rawboost or RawBoost()
    return TrainingClips(utterances, LENGTHS, 4000, boost, OFF, 3, mixup=mixup)


@pytest.mark.slow
def test_partners_and_weights_are_spread() -> None:
    mixup = Mixup(seed=0, probability=0.7, alpha=0.4, utterances=5)
    keys = [(epoch, 2) for epoch in range(1, 4001)]
    mixtures = mixup.draw_all(keys)
    is_mixed = mixtures.partners != 2
    assert abs(is_mixed.mean() - 0.7) < 0.03
    assert_array_equal(mixtures.weights[~is_mixed], 1)
    counts = np.bincount(mixtures.partners[is_mixed], minlength=5)
    assert counts[2] == 0 and counts[[0, 1, 3, 4]].min() > 600
    weights = mixtures.weights[is_mixed]
    # Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)).
    assert abs(weights.mean() - 0.5) < 0.03 and abs(weights.var() - 1 / 7.2) < 0.01
    assert weights.dtype == np.float32 and mixtures.partners.dtype == np.int64


def test_a_mixture_follows_from_seed_and_key() -> None:
    keys = [(epoch, index) for epoch in (1, 2, 2**32 + 1) for index in range(3)]
    weights = MIXUP.draw_all(keys).weights
    assert_array_equal(MIXUP.draw_all(keys[::-1]).weights[::-1], weights)
    assert not np.array_equal(replace(MIXUP, seed=4).draw_all(keys).weights, weights)
    always = replace(MIXUP, probability=1.0)
    mixture = always.draw(keys[0])
    row = always.draw_all(keys[:1])
    assert mixture is not None
    assert (row.partners[0], row.weights[0]) == (mixture.partner, mixture.weight)


def test_the_settings_say_whether_and_how() -> None:
    settings = augmentation()
    assert find_mixup(settings, 7) is None
    settings.augmentation.mixup_probability = 0.5
    settings.recipe.seed = 9
    assert find_mixup(settings, 7) == Mixup(9, 0.5, 0.4, 7)
    assert replace(MIXUP, utterances=1, probability=1.0).draw((1, 0)) is None


@pytest.mark.parametrize("rawboost", [RawBoost(), BOOST])
def test_a_clip_is_the_sum_of_two_clips_of_its_epoch(
    utterances: TrialList, rawboost: RawBoost
) -> None:
    plain = clips_of(utterances, None, rawboost)
    mixed = clips_of(utterances, MIXUP, rawboost)
    kinds = set()
    for epoch in range(1, 9):
        for index in range(3):
            mixture = MIXUP.draw((epoch, index))
            clip = plain[epoch, index].samples
            kinds.add(mixture is None)
            if mixture is None:
                assert_array_equal(mixed[epoch, index].samples, clip)
                continue
            partner = plain[epoch, mixture.partner].samples
            wanted = mixture.weight * clip + (1 - mixture.weight) * partner
            assert_allclose(mixed[epoch, index].samples, wanted, atol=1e-7)
            assert mixed[epoch, index].samples.dtype == np.float32
    assert kinds == {True, False}


def test_workers_change_no_sample(utterances: TrialList) -> None:
    clips = clips_of(utterances, MIXUP, BOOST)
    assert_workers_change_no_sample(clips, KEYS)


def test_on_the_device_clips_are_mixed_after_rawboost(utterances: TrialList) -> None:
    in_workers = clips_of(utterances, MIXUP, BOOST)
    on_device = clips_of(utterances, MIXUP, replace(BOOST, on_device=True))
    batches = list(BatchLoader(on_device, 0, World()).unboosted_batches(KEYS))
    wanted = list(BatchLoader(in_workers, 0, World()).batches(KEYS))
    rows = []
    for batch, samples in zip(batches, wanted, strict=True):
        assert batch.unboosted is not None
        rows.append(0 if batch.mixed_R is None else len(batch.mixed_R))
        assert len(batch.unboosted.waveforms_BT) == 3 + rows[-1]
        assert_allclose(batch.boosted(), samples, atol=2e-6)
    assert max(rows) > 1


def test_a_mixed_batch_is_sent_whole(utterances: TrialList) -> None:
    data = clips_of(utterances, replace(MIXUP, probability=1.0), replace(BOOST, on_device=True))
    batch = collate([data[1, index] for index in range(3)])
    sent = batch.to(torch.device("meta"))
    assert isinstance(sent.unboosted, Unboosted)
    assert sent.mixed_R.is_meta and sent.weights_R1.is_meta
    assert sent.weights_R1.shape == (3, 1)


def test_without_mixed_clips_a_batch_is_as_ever(utterances: TrialList) -> None:
    rawboost = replace(BOOST, on_device=True)
    never = replace(MIXUP, probability=1e-9)
    batch = collate([clips_of(utterances, never, rawboost)[1, index] for index in range(3)])
    plain = collate([clips_of(utterances, None, rawboost)[1, index] for index in range(3)])
    assert batch.mixed_R is None
    assert torch.equal(batch.boosted(), plain.boosted())


@pytest.mark.parametrize("on_device", [False, True])
def test_a_partner_that_cannot_be_read_is_named(utterances: TrialList, on_device: bool) -> None:
    always = replace(MIXUP, probability=1.0)
    data = clips_of(utterances, always, replace(BOOST, on_device=on_device))
    broken = always.draw((1, 0)).partner
    utterances.path(broken).write_bytes(b"no audio")
    with pytest.raises(AsdfError, match=f"{utterances.path(broken)} is not audio"):
        list(BatchLoader(data, 0, World()).batches([[(1, 0)]]))
