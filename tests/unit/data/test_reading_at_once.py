"""A batch that is read at once: the clips of one by one, and their errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from asdf.data.batches import Clip
from asdf.data.datasets import TrainingClips, WholeUtterances
from asdf.data.mixup import Mixup
from asdf.data.reading_at_once import REMOTE_THREADS, reading_threads
from asdf.remote import as_path
from asdf.trials.trial_list import TrialList, join
from tests.recordings import write_recordings
from tests.stores import range_server
from tests.unit.data.conftest import BOOST, OFF, clips


def same(clip: Clip, other: Clip) -> bool:
    assert clip.samples is not None and other.samples is not None
    return np.array_equal(clip.samples, other.samples)


@pytest.mark.slow_but("True")
@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_has_the_clips_of_one_by_one(utterances: TrialList, mixed: bool) -> None:
    one_by_one = clips(utterances, rawboost=BOOST)
    if mixed:
        one_by_one.mixup = Mixup(0, 0.8, 0.4, len(utterances))
    at_once = replace(one_by_one, threads=4)
    # A key may come twice, as of a sampler that draws with replacement.
    keys = [(epoch, index) for epoch in range(1, 5) for index in (0, 1, 2, 1)]
    batch = at_once.__getitems__(keys)
    for key, clip in zip(keys, batch, strict=True):
        assert same(clip, one_by_one[key])
    assert len({clip.samples.tobytes() for clip in batch if clip.samples is not None}) > 9


def test_whole_utterances_too(utterances: TrialList) -> None:
    whole = WholeUtterances(utterances, OFF)
    keys = [(index, 5000) for index in (2, 0, 1, 0)]
    batch = WholeUtterances(utterances, OFF, threads=3).__getitems__(keys)
    assert all(same(clip, whole[key]) for key, clip in zip(keys, batch, strict=True))


def test_one_broken_recording_costs_no_other_its_clip(utterances: TrialList) -> None:
    utterances.path(1).write_bytes(b"")
    at_once = replace(clips(utterances), threads=4)
    batch = at_once.__getitems__([(1, 0), (1, 1), (1, 2)])
    assert str(utterances.path(1)) in str(batch[1].error)
    assert batch[0].samples is not None and batch[2].samples is not None


def test_many_recordings_are_on_their_way_at_once(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    waveforms = [np.random.default_rng(seed).uniform(-0.5, 0.5, 4000) for seed in range(12)]
    local = write_recordings(tmp_path, waveforms, [1] * 12)
    with range_server() as server:
        for index, name in enumerate(local.ids):
            server.objects[f"/db/{name}"] = local.path(index).read_bytes()
        remote = replace(local, folder=as_path(server.address("/db")))
        server.delay_s = 0.05
        data = TrainingClips(remote, np.full(12, 4000), 4000, replace(BOOST), OFF, 0, threads=12)
        keys = [(1, index) for index in range(12)]
        batch = data.__getitems__(keys)
        requests = [each for each in server.requests if each[0] == "GET"]
        assert len(requests) == 12
        assert server.most_at_once >= 6
        expected = replace(data, utterances=local.packed(), threads=1)
        assert all(same(clip, expected[key]) for key, clip in zip(keys, batch, strict=True))


def test_where_the_recordings_lie_decides(utterances: TrialList) -> None:
    remote = replace(utterances, folder=as_path("s3://bucket/db"), name="remote")
    assert reading_threads("auto", utterances) == 1
    assert reading_threads("auto", remote) == REMOTE_THREADS
    assert reading_threads("auto", join([utterances, remote])) == REMOTE_THREADS
    assert reading_threads(5, utterances) == 5
    assert reading_threads(1, remote) == 1
