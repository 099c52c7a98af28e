"""RawBoost of whole batches after the loader makes the same examples as of single clips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from asdf.audio.augmentation import open_chain
from asdf.audio.rawboost_batch import Unboosted
from asdf.data.batches import collate
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.settings.sections import RawBoost, SpeechActivity
from tests.augmentations import augmentation
from tests.unit.data.conftest import LENGTHS

SIZE = 4000
KEYS = [[(epoch, (epoch + row) % 3) for row in range(3)] for epoch in range(1, 6)]
FAST = open_chain(augmentation("speed", speed_probability=0.5), Path())


def clips(utterances, on_device: bool, algo: int = 4, **changes) -> TrainingClips:
    settings = replace(
        RawBoost(enabled=True, algo=algo, applyingRatio=0.7, on_device=on_device), **changes
    )
    return TrainingClips(utterances, LENGTHS, SIZE, settings, SpeechActivity(), 3, "random", FAST)


def read(data: TrainingClips, workers: int = 0) -> list[torch.Tensor]:
    return list(BatchLoader(data, workers, World()).batches(KEYS))


@pytest.mark.parametrize("algo", range(1, 9))
def test_batches_are_those_of_the_loaders_way(utterances, algo):
    single, whole = read(clips(utterances, False, algo)), read(clips(utterances, True, algo))
    assert len(whole) == 5
    torch.testing.assert_close(whole, single, rtol=0, atol=1e-5)
    # What is left as it is, is left so to the bit.
    plain = read(clips(utterances, True, algo, enabled=False))
    unchanged = [
        torch.equal(a, b)
        for batch, plain_batch in zip(whole, plain, strict=True)
        for a, b in zip(batch, plain_batch, strict=True)
    ]
    assert 0 < sum(unchanged) < 10
    same = [
        torch.equal(a, b)
        for batch, plain_batch in zip(single, plain, strict=True)
        for a, b in zip(batch, plain_batch, strict=True)
    ]
    assert unchanged == same


def test_workers_that_live_on_change_no_sample(utterances, monkeypatch):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    alone = read(clips(utterances, True))
    loader = BatchLoader(clips(utterances, True), 2, World())
    next(iter(loader.batches(KEYS[3:])))  # an abandoned pass
    for _ in range(2):
        again = list(loader.batches(iter(KEYS)))
        assert len(again) == 5 and all(torch.equal(a, b) for a, b in zip(again, alone, strict=True))


@pytest.mark.parametrize("changes", [{"enabled": False}, {"algo": 0}, {"applyingRatio": 0.0}])
def test_without_rawboost_the_clips_are_as_they_are(utterances, changes):
    plain = read(clips(utterances, False, **changes))
    assert all(
        torch.equal(a, b)
        for a, b in zip(read(clips(utterances, True, **changes)), plain, strict=True)
    )


def test_an_item_is_the_clip_and_what_was_drawn_for_it(utterances):
    plain, data = clips(utterances, False, enabled=False), clips(utterances, True)
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
    for batch in BatchLoader(clips(utterances, True), workers, world).batches(KEYS):
        for _ in range(5):
            matrix @ matrix
        assert batch.device.type == "cuda"
        boosted.append(batch.clone())  # the memory is free for a later copy from here on
    torch.testing.assert_close(
        [batch.cpu() for batch in boosted], read(clips(utterances, False)), rtol=0, atol=1e-4
    )
