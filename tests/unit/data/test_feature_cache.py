"""Kept features: the right numbers, never those of something else, never half of them."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asdf.audio import read_audio
from asdf.data import feature_cache
from asdf.data.datasets import TrainingClips
from asdf.data.feature_cache import FeatureCache, FeaturePass, identity_of, in_bytes
from asdf.data.loaders import BatchLoader
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.layout import owner_lock
from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections, assign
from asdf.trials.trial_list import TrialList
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.training.conftest import StopAfter

SIZE, SAMPLES = 7, 400
CACHE = "front_end.cache_features"
LENGTHS = np.array([500 - 20 * index for index in range(SIZE)])


class Counting:
    """Features (batch, 4, 100) of waveforms (batch, 400), and how many batches there were."""

    def __init__(self, scale: float = 1.0, fails_at: int = 0) -> None:
        self.scale, self.fails_at, self.sizes = scale, fails_at, []

    def __call__(self, waveforms_BT):
        assert not torch.is_grad_enabled()
        if torch.any(waveforms_BT != 0):  # not the blank that shows the shape
            self.sizes.append(len(waveforms_BT))
            if len(self.sizes) == self.fails_at:
                raise KeyboardInterrupt
        return (self.scale * waveforms_BT).unflatten(1, (4, 100))


@pytest.fixture
def utterances(tmp_path) -> TrialList:
    return write_recordings(tmp_path, noise_waveforms(LENGTHS))


@pytest.fixture
def settings() -> Sections:
    settings = Sections()
    net = settings.network
    net.train_clip_size, net.clip_position = SAMPLES, "start"
    net.minibatch_size, net.eval_minibatch_size_factor = 2, 1.0
    settings.front_end.frozen = settings.front_end.cache_features = True
    return settings


@pytest.fixture
def keep(utterances, settings, tmp_path):
    def keep(front_end=None, stop=None, dtype="float16", batch_size=2):
        settings.network.minibatch_size = batch_size
        net = settings.network
        clips = TrainingClips(
            utterances, LENGTHS, SAMPLES, settings.rawboost, settings.sad, 0, position="start"
        )
        loader, stop = BatchLoader(clips, 0, World()), stop if stop is not None else StopRequest()
        work = FeaturePass(front_end or Counting(), loader, utterances, net, World(), stop)
        cache = FeatureCache(
            tmp_path / "features",
            identity_of({}, utterances, LENGTHS, settings, dtype),
            work.shape(),
        )
        return work.fill(cache), cache

    return keep


def expected(utterances, dtype) -> np.ndarray:
    clips = [np.resize(read_audio(utterances.path(index)), SAMPLES) for index in range(SIZE)]
    return np.stack(clips).reshape(SIZE, 4, 100).astype(dtype)


def assert_whole(features, utterances) -> None:
    found = np.stack([features[1, index].samples for index in range(SIZE)])
    assert np.array_equal(found, expected(utterances, "float16"))


def assert_finished(cache: FeatureCache) -> None:
    names = sorted(path.name for path in cache.cache_folder.iterdir())
    assert names == ["features.bin", "manifest.json"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_features_of_all_clips_are_cached_under_the_keys_of_the_clips(keep, utterances, dtype):
    features, cache = keep(dtype=dtype)
    wanted = expected(utterances, dtype)
    assert len(features) == SIZE and cache.bytes == wanted.nbytes == cache.features.stat().st_size
    for index in range(SIZE):
        for epoch in (1, 9):
            item = features[epoch, index].samples
            assert (
                type(item) is np.ndarray
                and item.dtype == dtype
                and np.array_equal(item, wanted[index])
            )


def test_layers_are_saved_side_by_side(keep, utterances):
    features, cache = keep(
        lambda waveforms: [n * waveforms.unflatten(1, (4, 100)) for n in (1, 2, 3)], dtype="float32"
    )
    assert cache.shape == (SIZE, 3, 4, 100)
    wanted = expected(utterances, np.float32)
    assert np.array_equal(
        features[1, 5].samples, np.stack([wanted[5], 2 * wanted[5], 3 * wanted[5]])
    )


def test_features_are_computed_once_and_in_batches_of_the_list_s_order(keep):
    first, second = Counting(), Counting()
    _, cache = keep(first)
    before = cache.features.read_bytes()
    assert first.sizes == [2, 2, 2, 1]
    keep(second)
    assert second.sizes == [] and cache.features.read_bytes() == before
    assert_finished(cache)


def test_the_key_changes_with_all_that_features_depend_on(utterances, settings, monkeypatch):
    def key(utterances=utterances, lengths=LENGTHS, dtype="float16", front_end="a", **network):
        sections = Sections()
        sections.sad, sections.network = settings.sad, settings.network
        sections.vocoding, sections.recipe = settings.vocoding, settings.recipe
        for name, value in network.items():
            setattr(sections.network, name, value)
        identity = identity_of({"weights": front_end}, utterances, lengths, sections, dtype)
        return FeatureCache(Path(), identity, (1, 1, 1)).cache_folder

    longer = LENGTHS + np.eye(1, SIZE, 3, dtype=int)[0]
    keys = [key(), key(dtype="float32"), key(front_end="b"), key(lengths=longer)]
    keys.append(key(utterances.select(np.array([1, 0, 2, 3, 4, 5, 6]))))
    keys += [key(train_clip_size=500), key(train_clip_size=SAMPLES, clip_position="random")]
    settings.network.clip_position = "start"
    settings.sad.mode = "endpoint"
    keys.append(key())
    settings.sad.threshold_db = 20.0
    keys.append(key())
    settings.sad.mode = "off"
    assert key() == keys[0]  # what does not matter while the detector is off does not count
    # Copies are made once, with the seed's draws.
    for section, name, value in (
        (settings.vocoding, "vocoders", ("lpc",)),
        (settings.recipe, "seed", 1),
        (settings.vocoding, "copies", 2.0),
    ):
        setattr(section, name, value)
        keys.append(key())
    for waveform in (np.zeros(9000), np.full(9000, 0.5)):
        soundfile.write(utterances.path(3), waveform, 16000)
        keys.append(key())
    monkeypatch.setattr(feature_cache, "FORMAT", 2)
    keys.append(key())
    assert len(set(keys)) == len(keys) == 15


def test_a_pass_that_was_cut_short_leaves_nothing_that_is_taken(keep, utterances):
    with pytest.raises(KeyboardInterrupt):
        keep(Counting(fails_at=3))
    again = Counting()
    features, _ = keep(again)
    assert again.sizes == [2, 2, 2, 1]
    assert_whole(features, utterances)


def of_another_identity(cache: FeatureCache) -> None:
    manifest = cache.cache_folder / "manifest.json"
    content = json.loads(manifest.read_text())
    content["identity"]["utterances"] = "another"
    manifest.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "harm",
    [
        of_another_identity,
        lambda cache: (cache.cache_folder / "manifest.json").unlink(),
        lambda cache: os.truncate(cache.cache_folder / "manifest.json", 100),
        lambda cache: os.truncate(cache.features, cache.bytes - 1),
        lambda cache: cache.features.unlink(),
    ],
    ids=["other manifest", "no manifest", "broken manifest", "short", "no features"],
)
def test_a_cache_that_is_not_as_it_says_is_computed_anew(keep, utterances, harm):
    harm(keep()[1])
    again = Counting()
    features, _ = keep(again)
    assert len(again.sizes) == 4
    assert_whole(features, utterances)


@pytest.mark.parametrize("looks", [1, 3, 4])
def test_a_pass_that_was_stopped_goes_on_where_it_was(keep, utterances, looks):
    with pytest.raises(
        Stopped,
        match="stopped by signal SIGTERM while computing features; the same command resumes",
    ):
        keep(stop=StopAfter(looks))
    again = Counting()
    features, cache = keep(again)
    assert again.sizes == [2, 2, 2, 1][looks:]
    assert_whole(features, utterances)
    assert_finished(cache)


def test_a_stopped_pass_in_batches_of_another_size_begins_anew(keep, utterances):
    with pytest.raises(Stopped):
        keep(stop=StopAfter(2))
    again = Counting()
    features, _ = keep(again, batch_size=3)
    assert again.sizes == [3, 3, 1]
    assert_whole(features, utterances)


def test_a_kill_after_a_stop_loses_only_what_came_between(keep, utterances):
    with pytest.raises(Stopped):
        keep(stop=StopAfter(1))
    with pytest.raises(KeyboardInterrupt):
        keep(Counting(fails_at=2))
    again = Counting()
    features, _ = keep(again)
    assert again.sizes == [2, 2, 1]
    assert_whole(features, utterances)


def test_a_run_waits_while_another_computes_the_same(keep, utterances, monkeypatch):
    monkeypatch.setattr(feature_cache, "POLL_S", 0.0)
    _, cache = keep()
    (cache.cache_folder / "manifest.json").rename(cache.cache_folder / "later")
    other = ExitStack()
    other.enter_context(owner_lock(cache.cache_folder))

    class Other(StopRequest):
        """The other run, which is ready while this one looks for the third time whether to stop."""

        looks = 0

        def __bool__(self):
            self.looks += 1
            if self.looks == 3:
                (cache.cache_folder / "later").rename(cache.cache_folder / "manifest.json")
                other.close()
            return False

    mine, stop = Counting(), Other()
    features, _ = keep(mine, stop)
    assert mine.sizes == [] and stop.looks == 3
    assert np.array_equal(features[1, 2].samples, expected(utterances, "float16")[2])


def test_a_run_that_waits_for_another_can_be_stopped(keep):
    _, cache = keep()
    (cache.cache_folder / "manifest.json").unlink()
    with (
        owner_lock(cache.cache_folder),
        pytest.raises(Stopped, match="while another run computed the features"),
    ):
        keep(stop=StopAfter(1))


def test_features_that_do_not_fit_on_the_disk_are_refused_before_any_is_computed(
    keep, monkeypatch, tmp_path
):
    full = type("Usage", (), {"free": SIZE * 800 - 1})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    front_end = Counting()
    with pytest.raises(AsdfError) as caught:
        keep(front_end)
    said = (
        f"the features of 7 clips take 5.6 kB, but {tmp_path / 'features'} has 5.6 kB left. "
        "Free some space"
    )
    assert str(caught.value).startswith(said)
    assert front_end.sizes == [] and not (tmp_path / "features").exists()
    full.free += 1
    assert len(keep(front_end)[0]) == SIZE


@pytest.mark.slow
def test_what_a_stopped_pass_has_written_needs_no_space_again(keep, monkeypatch):
    with pytest.raises(Stopped):
        keep(stop=StopAfter(3))
    full = type("Usage", (), {"free": 0})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    assert len(keep()[0]) == SIZE


def test_a_disk_that_fills_up_during_the_pass_is_one_message(keep, tmp_path):
    """A limit on the size of files acts as a full disk: for the whole file, and within the pass."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Filling(Counting):
        def __call__(self, waveforms_BT):
            if len(self.sizes) == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1700, hard))
            return super().__call__(waveforms_BT)

    try:
        for front_end in (Filling(), Counting()):
            with pytest.raises(
                AsdfError,
                match=r"cannot write .*features\.part: File too large\. The previous content",
            ):
                keep(front_end)
            # The second batch does not fit, and the third is under way by then.
            assert len(front_end.sizes) == (3 if isinstance(front_end, Filling) else 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    again = Counting()
    keep(again)
    assert again.sizes == [2, 2, 2, 1]


def test_features_beyond_the_format_are_an_error_that_names_the_recording(keep, utterances):
    peak = max(
        range(SIZE), key=lambda index: np.abs(read_audio(utterances.path(index))[:SAMPLES]).max()
    )
    scale = 65530 / np.abs(read_audio(utterances.path(peak))[:SAMPLES]).max()
    with pytest.raises(
        AsdfError, match=rf"features of {peak}\.wav exceed the range of float16: the largest is 6.5"
    ):
        keep(Counting(scale))
    assert len(keep(Counting(scale), dtype="float32")[0]) == SIZE


def test_the_dataset_travels_without_its_numbers_and_is_read_by_workers(keep, monkeypatch):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    features, _ = keep()
    assert features[1, 0].samples.shape == (4, 100)
    assert len(pickle.dumps(features)) < 1000
    assert np.array_equal(
        pickle.loads(pickle.dumps(features))[1, 3].samples, features[1, 3].samples
    )
    keys = [[(1, 4), (1, 0)], [(2, 6)]]
    for workers in (0, 2):
        pair, last = BatchLoader(features, workers, World()).batches(keys)
        assert (
            pair.dtype == torch.float16 and pair.shape == (2, 4, 100) and last.shape == (1, 4, 100)
        )
        assert np.array_equal(pair[0].numpy(), features[1, 4].samples) and np.array_equal(
            last[0].numpy(), features[1, 6].samples
        )


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, {}),
        ({"rawboost.enabled": True, "rawboost.algo": 0}, {}),
        ({"recipe.start_stage": 2, "front_end.frozen": False}, {}),
        (
            {
                "front_end.frozen": False,
                "front_end.unfreeze_after_epochs": 2,
                "network.clip_position": "random",
            },
            {
                "front_end.frozen": "(front_end.frozen = True)",
                "front_end.unfreeze_after_epochs": "(front_end.unfreeze_after_epochs = None)",
                "network.clip_position": "(network.clip_position = 'start')",
            },
        ),
        (
            {
                "rawboost.enabled": True,
                "augmentation.chain": ("speed",),
                "augmentation.mixup_probability": 0.5,
            },
            {
                "rawboost.enabled": "(rawboost.enabled = False)",
                "augmentation.chain": "(augmentation.chain = ())",
                "augmentation.mixup_probability": "(augmentation.mixup_probability = 0)",
            },
        ),
    ],
)
def test_settings_under_which_features_change_are_refused(settings, change, refused):
    assign(settings, change)
    found = {each.second: each.relation for each in contradictions(settings) if each.first == CACHE}
    assert found.keys() == refused.keys()
    assert all(refused[name] in relation for name, relation in found.items())
    settings.front_end.cache_features = False
    assert CACHE not in {contradiction.first for contradiction in contradictions(settings)}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (1_234_500_000_000, "1,234.5 GB"),
        (10**9, "1.0 GB"),
        (999_000_000, "999.0 MB"),
        (40, "0.0 kB"),
    ],
)
def test_sizes_are_stated_in_the_unit_that_fits(size, said):
    assert in_bytes(size) == said


def test_a_batch_is_computed_while_the_one_before_is_written(keep, monkeypatch):
    """On a GPU, to which a batch is sent before the host waits for the one before."""
    front_end, begun = Counting(), []

    def noted(blocks, *_, **__):
        for block in blocks:
            begun.append(len(front_end.sizes))
            yield block

    monkeypatch.setattr(feature_cache, "track", noted)
    keep(front_end)
    assert front_end.sizes == [2, 2, 2, 1]
    assert begun == [2, 3, 4, 4]
