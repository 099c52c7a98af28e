"""A list whose scoring was stopped goes on: no batch is computed twice, and no bit differs."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.runs import parts
from asdf.scoring.score_list import ScoredList, build_list_scorer, remove_parts, score_with_extras
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList
from tests.distributed.worlds import start_processes
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.scoring.counting import count_batches

# Six batches, and one recording beyond what is heard at once.
LENGTHS = (3000, 9000, 21_000, 9000, 40_100, 12_345, 7000)


@pytest.fixture
def utterances(tmp_path):
    return write_recordings(tmp_path, noise_waveforms(LENGTHS))


@pytest.fixture(autouse=True)
def saved_at_once(monkeypatch):
    monkeypatch.setattr(parts, "SAVED_EVERY_S", -1)


@pytest.fixture
def log(caplog):
    caplog.set_level("INFO", "asdf")
    return caplog


def make_settings(**network) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.architecture = "tiny"
    settings.localisation.enabled = True
    of_network = {"minibatch_size": 1, "train_clip_size": 4000}
    of_network["min_evaluation_utterance_length_in_samples"] = 4000
    of_network["max_evaluation_utterance_length_in_samples"] = 16_000
    settings.network = replace(settings.network, **of_network, **network)
    settings.computing.network_dataloader_workers = 0
    return settings


def work(utterances, output, world=None, seed=0, wanted=("frames",), **network):
    world = world or World()
    settings = make_settings(**network)
    torch.manual_seed(seed)
    scorer = build_list_scorer(build_network(settings), settings, world)
    arguments = (scorer, utterances, np.array(LENGTHS), settings, world, StopRequest())
    return score_with_extras(*arguments, wanted, output)


def assert_same(first: ScoredList, second: ScoredList) -> None:
    assert first.scores.tobytes() == second.scores.tobytes()
    assert first.over_time.keys() == second.over_time.keys()
    for key, table in first.over_time.items():
        other = second.over_time[key]
        assert table.durations_s.tobytes() == other.durations_s.tobytes()
        for index in range(len(LENGTHS)):
            assert table.of_trial(index).tobytes() == other.of_trial(index).tobytes()


def saved(folder: Path) -> list[Path]:
    return sorted(folder.glob(".scores.txt.*.npz"))


@pytest.mark.parametrize("wanted", [(), ("frames",)])
def test_what_was_scored_is_not_scored_again(utterances, tmp_path, monkeypatch, log, wanted):
    output = tmp_path / "scores.txt"
    whole = work(utterances, None, wanted=wanted)
    with monkeypatch.context() as patch:
        batches = count_batches(patch, fail_after=4)
        with pytest.raises(KeyboardInterrupt):
            work(utterances, output, wanted=wanted)
    assert len(batches) == 4 and len(saved(tmp_path)) >= 4
    # What a process that is killed while it writes leaves, under its final name: a broken disk.
    (tmp_path / ".scores.txt.rows-0.npz").write_bytes(saved(tmp_path)[-1].read_bytes()[:300])
    with monkeypatch.context() as patch:
        again = count_batches(patch)
        assert_same(work(utterances, output, wanted=wanted), whole)
    total = count_batches(monkeypatch)
    work(utterances, None, wanted=wanted)
    # The frames of a batch reach the host, and its part, when the next one is at work.
    assert len(total) <= len(batches) + len(again) <= len(total) + len(wanted)
    assert f"resumes: {sum(batches) - len(wanted)} of 7 trials are scored already" in log.text
    assert "is not used: it is damaged" in log.text
    remove_parts(output)
    assert not saved(tmp_path)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"seed": 1}, "another network"),
        ({"score": "difference"}, "another way of scoring"),
        ({"max_cut_proportion": 0.9}, "another division into batches"),
    ],
)
def test_parts_of_other_work_are_not_used(utterances, tmp_path, log, change, differs):
    output = tmp_path / "scores.txt"
    work(utterances, output, wanted=())
    assert saved(tmp_path)
    assert_same(
        work(utterances, output, wanted=(), **change), work(utterances, None, wanted=(), **change)
    )
    assert f"data saved by an earlier start is not used: it is of {differs}" in log.text
    assert "resumes" not in log.text


def test_parts_of_another_list_are_not_used(utterances, tmp_path, log):
    output = tmp_path / "scores.txt"
    work(utterances, output, wanted=())
    ids = [*utterances.ids[:-2], utterances.ids[-1], utterances.ids[-2]]
    other = TrialList(ids, utterances.labels, name=utterances.name, folder=utterances.folder)
    work(other, output, wanted=())
    assert "is not used: it is of another list" in log.text


def test_frames_that_an_earlier_version_saved_are_used(utterances, tmp_path, monkeypatch):
    output = tmp_path / "scores.txt"
    whole = work(utterances, output)
    for path in saved(tmp_path):
        with np.load(path) as file:
            columns = dict(file)
        if "counts" in columns:
            # Its names; it saved durations too.
            assert columns.keys() == {"work", "trials", "counts", "scores"}
            columns["durations_s"] = np.zeros(len(columns["trials"]))
            np.savez(path, **columns)
    batches = count_batches(monkeypatch)
    assert_same(work(utterances, output), whole)
    assert not batches


def test_a_requested_stop_saves_what_was_scored(utterances, tmp_path, monkeypatch, log):
    output = tmp_path / "scores.txt"
    monkeypatch.setattr(parts, "SAVED_EVERY_S", 1000)
    stop = StopRequest()
    settings = make_settings()
    torch.manual_seed(0)
    scorer = build_list_scorer(build_network(settings), settings, World())
    compute = Scorer.compute

    def compute_and_request(scorer, waveforms, *wanted):
        stop.reason = "a test"
        return compute(scorer, waveforms, *wanted)

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "compute", compute_and_request)
        with pytest.raises(Stopped, match="the same command resumes from there"):
            arguments = (scorer, utterances, np.array(LENGTHS), settings, World(), stop)
            score_with_extras(*arguments, (), output)
    assert_same(work(utterances, output, wanted=()), work(utterances, None, wanted=()))
    assert "resumes: 1 of 7 trials are scored already" in log.text


def bytes_of_frames(scored: ScoredList) -> bytes:
    table = scored.over_time["frames"]
    return b"".join(map(table.of_trial, range(len(LENGTHS))))


def work_in_processes(rank, utterances, folder, size, kill_after):
    torch.set_num_threads(1)
    parts.SAVED_EVERY_S = -1
    store = f"file://{folder}/store{size}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    world = World(rank, size, rank, size, backend="gloo")
    compute, done = Scorer.compute, []

    def compute_until_killed(scorer, waveforms, *wanted):
        if len(done) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(len(waveforms))
        return compute(scorer, waveforms, *wanted)

    Scorer.compute = compute_until_killed
    scored = work(utterances, folder / "scores.txt", world)
    if scored is not None:
        (folder / "bytes").write_bytes(scored.scores.tobytes())
        (folder / "frames").write_bytes(bytes_of_frames(scored))
    dist.destroy_process_group()


@pytest.mark.slow
def test_after_kill_9_three_processes_go_on_from_what_two_had(utterances, tmp_path, log):
    with pytest.raises(Exception, match="SIGKILL"):
        start_processes(work_in_processes, (utterances, tmp_path, 2, 2), 2)
    known = len(saved(tmp_path))
    assert known >= 2
    start_processes(work_in_processes, (utterances, tmp_path, 3, None), 3)
    torch.set_num_threads(1)
    whole = work(utterances, None)
    assert (tmp_path / "bytes").read_bytes() == whole.scores.tobytes()
    assert (tmp_path / "frames").read_bytes() == bytes_of_frames(whole)
    # What the killed ones had is still there, and was added to.
    assert len(saved(tmp_path)) > known
