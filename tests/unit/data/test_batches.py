"""A batch is its clips, or the first error among them, on whatever device."""

import numpy as np
import torch

from asdf.audio.rawboost import draw
from asdf.data.batches import Batch, Clip, collate
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost

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
