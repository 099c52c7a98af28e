"""A batch is its clips, mixed and boosted as single ones are, or the first error among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.augmentation import open_chain
from asdf.audio.rawboost import draw
from asdf.audio.rawboost_batch import Unboosted
from asdf.data.batches import Batch, Clip, Mixup, collate, find_mixup
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.trial_list import TrialList
from tests.augmentations import augmentation
from tests.unit.data.conftest import BOOST, LENGTHS, OFF, assert_workers_change_no_sample

CPU = torch.device("cpu")


def test_a_batch_is_its_clips_or_the_first_error():
    ones = Clip(np.ones(3, np.float32))
    batch = collate([ones, Clip(np.zeros(3, np.float32))])
    assert torch.equal(batch.boosted(), torch.tensor([[1.0, 1, 1], [0, 0, 0]]))
    assert batch.boosted().dtype == torch.float32 and batch.error is None
    error = AsdfError("broken")
    broken = collate([ones, Clip(error=error), Clip(error=AsdfError("later"))])
    assert broken.error is error and broken.samples is None


def test_clips_that_rawboost_is_to_reach_get_its_noises_with_their_batch():
    settings = RawBoost(enabled=True, algo=3, on_device=True)
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 1000).astype(np.float32)
    draws = draw(1000, settings, np.random.default_rng(1))
    batch = collate([Clip(samples, settings), Clip(samples, settings, draws)])
    assert batch.samples is None and batch.unboosted is not None
    assert batch.unboosted.rows_R.tolist() == [1]
    boosted_BT = batch.to(CPU).boosted()
    assert torch.equal(boosted_BT[0], torch.from_numpy(samples))
    assert not torch.equal(boosted_BT[1], torch.from_numpy(samples))


def test_a_batch_goes_to_a_device_whole():
    """Tensors of the device 'meta' have a shape and no numbers: copies are seen without a GPU."""
    meta = torch.device("meta")
    assert Batch(torch.ones(2, 5)).to(meta).samples.device == meta
    settings = RawBoost(enabled=True, algo=3, on_device=True)
    samples = np.ones(100, np.float32)
    draws = draw(100, settings, np.random.default_rng(1))
    sent = collate([Clip(samples, settings, draws)]).to(meta)
    assert sent.unboosted.waveforms_BT.device == sent.unboosted.white_RT.device == meta
    error = Batch(error=AsdfError("broken"))
    assert error.to(meta) == error


SIZE = 4000
KEYS = [[(epoch, (epoch + row) % 3) for row in range(3)] for epoch in range(1, 6)]
FAST = open_chain(augmentation("speed", speed_probability=0.5), Path())


def boosted_clips(utterances, on_device: bool, algo: int = 4, **changes) -> TrainingClips:
    settings = replace(
        RawBoost(enabled=True, algo=algo, applyingRatio=0.7, on_device=on_device), **changes
    )
    return TrainingClips(utterances, LENGTHS, SIZE, settings, SpeechActivity(), 3, "random", FAST)


def read(data: TrainingClips, workers: int = 0) -> list[torch.Tensor]:
    return list(BatchLoader(data, workers, World()).batches(KEYS))


def same_clips(first: list[torch.Tensor], second: list[torch.Tensor]) -> list[bool]:
    """For each clip of the batches, whether both have the same bits."""
    return [torch.equal(*pair) for pair in zip(torch.cat(first), torch.cat(second), strict=True)]


@pytest.mark.parametrize("algo", range(1, 9))
def test_batches_are_those_of_the_loaders_way(utterances, algo):
    single = read(boosted_clips(utterances, False, algo))
    whole = read(boosted_clips(utterances, True, algo))
    assert len(whole) == 5
    torch.testing.assert_close(whole, single, rtol=0, atol=1e-5)
    # What is left as it is, is left so to the bit.
    plain = read(boosted_clips(utterances, True, algo, enabled=False))
    assert 0 < sum(same_clips(whole, plain)) < 10
    assert same_clips(whole, plain) == same_clips(single, plain)


@pytest.mark.parametrize("changes", [{"enabled": False}, {"algo": 0}, {"applyingRatio": 0.0}])
def test_without_rawboost_the_clips_are_as_they_are(utterances, changes):
    plain = read(boosted_clips(utterances, False, **changes))
    assert all(same_clips(read(boosted_clips(utterances, True, **changes)), plain))


def test_an_item_is_the_clip_and_what_was_drawn_for_it(utterances):
    plain, data = boosted_clips(utterances, False, enabled=False), boosted_clips(utterances, True)
    items = [data[epoch, 2] for epoch in range(1, 40)]
    assert 0.5 < np.mean([item.draws is not None for item in items]) < 0.9
    for epoch, item in enumerate(items, 1):
        assert_array_equal(item.samples, plain[epoch, 2].samples)
    batch = collate(items).unboosted
    assert isinstance(batch, Unboosted) and batch.waveforms_BT.shape == (39, SIZE)
    assert batch.rows_R.tolist() == [
        row for row, item in enumerate(items) if item.draws is not None
    ]


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_boosted_on_a_gpu_while_it_is_at_work(utterances, workers):
    world, matrix = World(device=torch.device("cuda", 0)), torch.ones(3000, 3000, device="cuda")
    boosted = []
    for batch in BatchLoader(boosted_clips(utterances, True), workers, world).batches(KEYS):
        for _ in range(5):
            matrix @ matrix
        assert batch.device.type == "cuda"
        boosted.append(batch.clone())  # the memory is free for a later copy from here on
    torch.testing.assert_close(
        [batch.cpu() for batch in boosted],
        read(boosted_clips(utterances, False)),
        rtol=0,
        atol=1e-4,
    )


MIXUP = Mixup(seed=3, probability=0.6, alpha=1.0, utterances=3)
MIXED_KEYS = [[(epoch, (epoch + index) % 3) for index in range(3)] for epoch in range(1, 7)]


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
    row = always.draw_all(keys[:1])
    assert (row.partners[0], row.weights[0]) == always.draw(keys[0])


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
            partner, weight = mixture
            wanted = weight * clip + (1 - weight) * plain[epoch, partner].samples
            assert_allclose(mixed[epoch, index].samples, wanted, atol=1e-7)
            assert mixed[epoch, index].samples.dtype == np.float32
    assert kinds == {True, False}


def test_workers_change_no_sample(utterances: TrialList) -> None:
    clips = clips_of(utterances, MIXUP, replace(BOOST, on_device=True))
    assert_workers_change_no_sample(clips, MIXED_KEYS)


def test_on_the_device_clips_are_mixed_after_rawboost(utterances: TrialList) -> None:
    in_workers = clips_of(utterances, MIXUP, BOOST)
    on_device = clips_of(utterances, MIXUP, replace(BOOST, on_device=True))
    batches = list(BatchLoader(on_device, 0, World()).unboosted_batches(MIXED_KEYS))
    wanted = list(BatchLoader(in_workers, 0, World()).batches(MIXED_KEYS))
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
    broken = always.draw((1, 0))[0]
    utterances.path(broken).write_bytes(b"no audio")
    with pytest.raises(AsdfError, match=f"{utterances.path(broken)} is not audio"):
        list(BatchLoader(data, 0, World()).batches([[(1, 0)]]))
