"""Ray, started here with two CPUs: parts of a list, and a network as a stage of Ray Data."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.commands.score import main as score
from asdf.engines.ray import RayCluster, Scorer, Worker, _room, run_parts
from asdf.errors import AsdfError, InUseError, UsageError
from tests.conftest import PATIENCE_S
from tests.unit.conftest import small_settings, sound, write_small_network

COUNT = 12
OUTPUTS = ("--scores", "out.txt", "--csv", "out.csv")
NAMES = ("out.txt", "out.csv", "out.scored.json")
FIXED = ("--device", "cpu", "--threads", "1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A network, a list, and what one process writes of it."""
    folder = tmp_path_factory.mktemp("whole")
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    write_small_network(folder / "net.pt", settings)
    lines = []
    for number in range(COUNT):
        soundfile.write(folder / f"r{number}.wav", sound(9000 + 300 * number, number), 16000)
        lines.append(f"r{number}.wav {number % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["score", "net.pt", "list.txt", *OUTPUTS, *FIXED]) == 0
    return folder


@pytest.fixture
def mine(whole, tmp_path, monkeypatch) -> Path:
    folder = shutil.copytree(whole, tmp_path / "mine")
    for name in NAMES:
        (folder / name).unlink()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def ray():
    """Ray with two CPUs, for all tests here: its start takes seconds, and a process has one."""
    started = pytest.importorskip("ray", reason="ray is not installed")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
    started.init("local", num_cpus=2, **options)
    yield started
    started.shutdown()


def same_as_one_process(folder: Path, whole: Path) -> bool:
    return all((folder / name).read_bytes() == (whole / name).read_bytes() for name in NAMES)


def test_a_worker_runs_the_command_in_the_folder_and_returns_what_it_says(mine, monkeypatch):
    monkeypatch.chdir(mine.parent)
    worker = Worker(score, str(mine))
    for part in ("2/2", "1/2"):
        done = worker.run(["net.pt", "list.txt", *OUTPUTS, *FIXED, "--part", part])
        assert done.status == 0 and f"part {part} is done" in done.said
    done = worker.run(["net.pt", "list.txt", *OUTPUTS, *FIXED, "--part", "3/2"])
    assert done.status == 2 and "write K/N, from 1/N to N/N" in done.error


def test_a_worker_waits_for_a_process_that_was_left_behind(tmp_path):
    tries = []

    def main(words):
        tries.append(words)
        if len(tries) < 2:
            raise InUseError("another process is writing")
        return 0

    assert Worker(main, str(tmp_path)).run(["x"]).status == 0 and len(tries) == 2


def test_a_node_without_the_folder_is_named(tmp_path):
    with pytest.raises(AsdfError, match="All nodes must share this folder"):
        Worker(score, str(tmp_path / "nowhere"))


def test_rows_have_scores_and_errors(whole):
    contents = [(whole / "r0.wav").read_bytes(), b"no audio"]
    batch = {"bytes": np.array(contents, object), "id": np.array(["a", "b"])}
    scored = Scorer(str(whole / "net.pt"), device="cpu", threshold=-1e9, speech_check="off")(batch)
    detector = asdf.Detector(whole / "net.pt", "cpu")
    assert list(scored) == ["id", "score", "verdict", "error"]
    assert scored["score"][0] == pytest.approx(float(detector.score(whole / "r0.wav")), abs=1e-5)
    assert np.isnan(scored["score"][1]) and scored["error"][1] and not scored["error"][0]
    assert scored["verdict"].tolist() == ["bona fide", ""]
    with pytest.raises(UsageError, match="needs a column `bytes` or `path`; it has text"):
        Scorer(str(whole / "net.pt"), device="cpu")({"text": np.array(["a"])})


def test_without_ray_it_names_the_extra(mine, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["score", "net.pt", "list.txt", "--csv", "o.csv", "--ray", "2"]) == 2
    assert "pip install 'asdf-antispoofing[ray]'" in capsys.readouterr().err


@pytest.mark.slow
def test_parts_on_actors_are_the_bytes_of_one_process(ray, mine, whole):
    words = ["net.pt", "list.txt", *OUTPUTS, *FIXED]
    bad = ["nothing.pt", *words[1:], "--part", "2/3"]
    with pytest.raises(AsdfError, match="--part 2/3: "):
        run_parts(score, [bad], [], RayCluster(uses_gpus=False))
    # A part is done already: were it scored again, it would have the error no more.
    assert score([*words, "--part", "2/3"]) == 0
    path = mine / ".out.csv.part-2-of-3.progress"
    path.write_bytes(path.read_bytes().replace(b'"remark": ""', b'"remark": "known"'))
    assert main(["score", *words, "--ray", "3"]) == 0
    merged = (mine / "out.csv").read_text()
    assert merged.count(",known,") == 4
    (mine / "out.csv").write_text(merged.replace(",known,", ",,"))
    assert same_as_one_process(mine, whole)
    assert not list(mine.glob(".*.progress"))


@pytest.mark.slow
def test_a_scorer_is_a_stage_of_ray_data(ray, whole):
    pytest.importorskip("pandas", reason="Ray Data needs pandas")
    recordings = ray.data.read_binary_files(
        [str(whole / f"r{number}.wav") for number in range(4)], include_paths=True
    )
    scored = recordings.map_batches(
        Scorer,
        fn_constructor_args=[str(whole / "net.pt")],
        fn_constructor_kwargs={"device": "cpu"},
        batch_size=2,
        concurrency=1,
    )
    rows = {Path(row["path"]).name: row for row in scored.take_all()}
    detector = asdf.Detector(whole / "net.pt", "cpu")
    assert len(rows) == 4
    for name, row in rows.items():
        assert row["score"] == pytest.approx(float(detector.score(whole / name)), abs=1e-5)
        assert row["error"] == "" and "bytes" not in row


@pytest.mark.slow
def test_a_killed_command_goes_on(mine, whole):
    """Its Ray dies with it; a part that was done is not done again."""
    pytest.importorskip("ray", reason="ray is not installed")
    command = [sys.executable, "-m", "asdf", "score", "net.pt", "list.txt", *OUTPUTS, *FIXED]
    # Not the Ray of another test that runs beside this one.
    command += ["--ray", "4", "--ray-address", "local"]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while not list(mine.glob(".out.csv.part-*-of-4.progress")):
        assert time.monotonic() < until and killed.poll() is None
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not any((mine / name).exists() for name in NAMES)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert same_as_one_process(mine, whole)


@pytest.mark.parametrize(
    ("nodes", "cpus", "room"),
    [
        ([(4, 0)] * 4, 8, (4, {"num_cpus": 4})),
        ([(16, 0), (2, 2)], 2, (1, {"num_cpus": 2, "num_gpus": 1})),
        ([(8, 1), (8, 4)], 4, (3, {"num_cpus": 4, "num_gpus": 1})),
    ],
)
def test_an_actor_lies_on_one_node(nodes, cpus, room):
    found = [{"Alive": True, "Resources": {"CPU": a, "GPU": b}} for a, b in nodes]
    found.append({"Alive": False, "Resources": {"CPU": 64}})
    cluster = RayCluster(cpus=cpus, uses_gpus=True)
    assert _room(SimpleNamespace(nodes=lambda: found), cluster, 9) == room


def test_a_cluster_without_room_is_refused():
    found = [{"Alive": True, "Resources": {"CPU": 8}}, {"Alive": True, "Resources": {"GPU": 1}}]
    with pytest.raises(UsageError, match=r"no node of the cluster has room"):
        _room(SimpleNamespace(nodes=lambda: found), RayCluster(cpus=4, uses_gpus=True), 2)
