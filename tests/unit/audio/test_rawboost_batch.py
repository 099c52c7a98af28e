"""RawBoost of whole batches, row by row against that of single waveforms with the same draws."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.rawboost import boost, draw
from asdf.audio.rawboost_batch import Unboosted, prepare
from asdf.settings.sections import RawBoost

ALWAYS = RawBoost(enabled=True, applyingRatio=1.0)
ALGORITHMS = range(1, 9)


def batch_of(length: int, settings: RawBoost, size: int = 5, left_out: tuple[int, ...] = (1, 4)):
    """Waveforms (size, length) of unlike levels, and draws for those that are not left out."""
    levels = np.geomspace(0.03, 0.6, size)[:, None]
    waveforms = (levels * np.random.default_rng(length).standard_normal((size, length))).astype(
        np.float32
    )
    generators = [np.random.default_rng(row) for row in range(size)]
    draws = [
        None if row in left_out else draw(length, settings, rng)
        for row, rng in enumerate(generators)
    ]
    return waveforms, draws


def boosted_batch(waveforms: torch.Tensor, draws, settings: RawBoost) -> torch.Tensor:
    return prepare(waveforms, draws, settings).boosted()


def assert_as_alone(waveforms, draws, settings, atol: float = 2e-6) -> None:
    boosted = boosted_batch(torch.from_numpy(waveforms), draws, settings).numpy()
    assert boosted.dtype == np.float32 and boosted.shape == waveforms.shape
    for waveform, drawn, row in zip(waveforms, draws, boosted, strict=True):
        if drawn is None:
            assert_array_equal(row, waveform)
        else:
            alone = boost(waveform, drawn, settings)
            assert_allclose(row, alone, atol=atol * max(1, np.abs(alone).max()))
            assert np.abs(row - waveform).max() > 1e-3


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("length", [400, 9001])
def test_every_algorithm_is_that_of_single_waveforms(algo, length):
    settings = replace(ALWAYS, algo=algo)
    waveforms, draws = batch_of(length, settings)
    before = waveforms.copy()
    assert_as_alone(waveforms, draws, settings)
    assert_array_equal(waveforms, before)


@pytest.mark.parametrize(
    "changes",
    [
        {"N_f": 1},
        {"N_f": 7, "nBands": 1},
        {"minG": -6, "maxG": 12},
        {"minCoeff": 1, "maxCoeff": 1},
        {"minCoeff": 1, "maxCoeff": 4, "nBands": 1},
        {"minCoeff": 401, "maxCoeff": 900},
        {"P": 100, "g_sd": 0.5},
    ],
)
def test_other_settings_are_those_of_single_waveforms(changes):
    settings = replace(ALWAYS, algo=4, **changes)
    assert_as_alone(*batch_of(3000, settings), settings, atol=2e-5)


def test_a_row_does_not_depend_on_its_neighbours():
    settings = replace(ALWAYS, algo=4)
    waveforms, draws = (part[::-1] for part in batch_of(5000, settings))
    whole = boosted_batch(torch.from_numpy(waveforms.copy()), draws, settings)
    for row, drawn in enumerate(draws):
        alone = boosted_batch(torch.from_numpy(waveforms[row : row + 1].copy()), [drawn], settings)[
            0
        ]
        assert_allclose(alone, whole[row], atol=1e-6)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_short_and_silent_waveforms_stay_finite(algo):
    settings = replace(ALWAYS, algo=algo)
    for length in (1, 2, 50):
        waveforms, draws = batch_of(length, settings, left_out=())
        waveforms[0] = 0
        boosted = boosted_batch(torch.from_numpy(waveforms), draws, settings).numpy()
        assert np.isfinite(boosted).all()
        for row, waveform, drawn in zip(boosted, waveforms, draws, strict=True):
            assert_allclose(row, boost(waveform, drawn, settings), atol=1e-5)
        assert_array_equal(boosted[0], 0)


def test_silent_stationary_noise_changes_nothing():
    settings = replace(ALWAYS, algo=3)
    waveforms, draws = batch_of(500, settings, 2, left_out=())
    draws[0] = replace(draws[0], ssi=replace(draws[0].ssi, white=np.zeros(500, np.float32)))
    boosted = boosted_batch(torch.from_numpy(waveforms), draws, settings).numpy()
    assert_array_equal(boosted[0], waveforms[0])
    assert np.abs(boosted[1] - waveforms[1]).max() > 1e-4


def test_a_batch_without_draws_is_the_batch():
    waveforms = torch.rand(3, 400)
    assert boosted_batch(waveforms, [None] * 3, ALWAYS) is waveforms


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_no_value_is_read_from_the_device(algo):
    """On the device 'meta' tensors have shapes and no values: whatever needs one fails."""
    settings = replace(ALWAYS, algo=algo)
    waveforms, draws = batch_of(3000, settings)
    boosted = (
        prepare(torch.from_numpy(waveforms), draws, settings).to(torch.device("meta")).boosted()
    )
    assert (
        boosted.shape == (5, 3000)
        and boosted.device.type == "meta"
        and boosted.dtype == torch.float32
    )


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_what_is_drawn_goes_from_process_to_process(algo):
    settings = replace(ALWAYS, algo=algo)
    waveforms, draws = batch_of(700, settings)
    prepared = prepare(torch.from_numpy(waveforms), draws, settings)
    assert torch.equal(pickle.loads(pickle.dumps(prepared)).boosted(), prepared.boosted())
    again = prepare(torch.from_numpy(waveforms), pickle.loads(pickle.dumps(draws)), settings)
    assert torch.equal(again.boosted(), prepared.boosted())


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_on_a_gpu_nothing_waits_and_the_noises_are_the_same(algo):
    settings, device = replace(ALWAYS, algo=algo), torch.device("cuda", 0)
    waveforms, draws = batch_of(9001, settings)
    prepared = prepare(torch.from_numpy(waveforms), draws, settings).pin_memory()
    assert isinstance(prepared, Unboosted) and prepared.waveforms_BT.is_pinned()
    prepared.to(device).boosted()  # the first call makes plans
    torch.cuda.set_sync_debug_mode("error")
    try:
        boosted = prepared.to(device, non_blocking=True).boosted()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_allclose(
        boosted.cpu(), boosted_batch(torch.from_numpy(waveforms), draws, settings), atol=1e-5
    )
