"""One run at a time in a system folder."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from asdf.errors import AsdfError
from asdf.runs import owner
from asdf.runs.owner import owner_mark
from tests.conftest import PATIENCE_S

HOLD = """
import os, sys, time
from pathlib import Path
from asdf.runs.owner import owner_mark
with owner_mark(Path(sys.argv[1])):
    if sys.argv[2:] and os.fork() == 0:
        os.close(1)
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder, *words) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def notices(monkeypatch):
    texts = []
    monkeypatch.setattr(owner.LOG, "info", lambda text, *what: texts.append(text % what))
    return texts


def test_the_mark_names_its_owner_and_goes_with_it(tmp_path):
    with owner_mark(tmp_path):
        mark = json.loads((tmp_path / "owner.json").read_text())
        assert mark["process"] == os.getpid() and mark["host"] == socket.gethostname()
    assert not list(tmp_path.iterdir())


def test_a_second_run_is_refused_by_host_process_and_start(tmp_path):
    first = hold(tmp_path)
    mark = json.loads((tmp_path / "owner.json").read_text())
    with pytest.raises(AsdfError) as caught, owner_mark(tmp_path):
        pass
    assert f"process {first.pid} on {socket.gethostname()}, started {mark['start']}" in str(
        caught.value
    )
    assert "another paths.system_folder" in str(caught.value)
    assert json.loads((tmp_path / "owner.json").read_text()) == mark
    first.communicate("")
    with owner_mark(tmp_path):
        pass


def test_a_killed_owner_is_followed_with_a_notice(tmp_path, notices):
    first = hold(tmp_path)
    first.kill()
    first.communicate()
    with owner_mark(tmp_path):
        assert json.loads((tmp_path / "owner.json").read_text())["process"] == os.getpid()
    assert (
        len(notices) == 1
        and f"process {first.pid}" in notices[0]
        and "was killed; resuming from its files" in notices[0]
    )


def test_what_a_killed_owner_left_running_is_waited_for(tmp_path, notices, monkeypatch):
    """A loader process holds the lock that it inherited until it finds that its run is gone."""
    release, sleep = tmp_path / "release", time.sleep
    first = hold(tmp_path / "system", str(release))
    first.kill()
    first.communicate()

    def wait(_):
        release.touch()
        sleep(0.02)

    monkeypatch.setattr(owner.time, "sleep", wait)
    monkeypatch.setattr(owner, "ORPHANS_S", PATIENCE_S)
    with owner_mark(tmp_path / "system"):
        assert release.exists()
    assert len(notices) == 1


def another_hosts_mark(folder, age_s: float) -> None:
    mark = folder / "owner.json"
    mark.write_text(json.dumps({"host": "elsewhere", "process": 7, "start": "then"}))
    os.utime(mark, (time.time() - age_s,) * 2)


def test_another_hosts_old_mark_is_taken_over(tmp_path, notices):
    another_hosts_mark(tmp_path, age_s=100_000)
    with owner_mark(tmp_path):
        pass
    assert "process 7 on elsewhere, started then" in notices[0]


def test_another_hosts_mark_that_beats_is_respected(tmp_path, monkeypatch):
    another_hosts_mark(tmp_path, age_s=5)
    monkeypatch.setattr(owner.time, "sleep", lambda s: os.utime(tmp_path / "owner.json"))
    with pytest.raises(AsdfError, match="process 7 on elsewhere"), owner_mark(tmp_path):
        pass
    assert json.loads((tmp_path / "owner.json").read_text())["process"] == 7


def test_another_hosts_mark_that_vanishes_while_watched_leaves_a_mark_of_our_own(
    tmp_path, monkeypatch
):
    another_hosts_mark(tmp_path, age_s=5)
    monkeypatch.setattr(
        owner.time, "sleep", lambda s: (tmp_path / "owner.json").unlink(missing_ok=True)
    )
    with owner_mark(tmp_path):
        assert json.loads((tmp_path / "owner.json").read_text())["process"] == os.getpid()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    said = r"cannot write in the system folder .*paths\.output_folder"
    with pytest.raises(AsdfError, match=said), owner_mark(tmp_path / "file" / "system"):
        pass


@pytest.mark.slow_but("5", "{")
@pytest.mark.parametrize(
    "left", ["[1]", "5", '"text"', "{", "[" * 100_000, '{"host": "%s", "process": [1]}']
)
def test_a_damaged_mark_is_taken_over_once_it_is_still(tmp_path, notices, monkeypatch, left):
    monkeypatch.setattr(owner, "STILL_S", 0.01)
    path = tmp_path / "owner.json"
    path.write_text(left.replace("%s", socket.gethostname()))
    with owner_mark(tmp_path):
        assert json.loads(path.read_text())["process"] == os.getpid()
    assert not path.exists()


def test_a_link_instead_of_the_mark_is_not_followed(tmp_path):
    (tmp_path / "victim.txt").write_text("precious")
    (tmp_path / "system").mkdir()
    link = tmp_path / "system" / "owner.json"
    for target in ("victim.txt", "not_there.txt"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        with pytest.raises(AsdfError) as caught, owner_mark(tmp_path / "system"):
            pass
        assert str(caught.value) == (
            f"{link} is a link, where a run writes its owner's mark: it would overwrite the target "
            "of the link. Remove the link, and check who may write to that folder."
        )
    assert (tmp_path / "victim.txt").read_text() == "precious"
    assert not (tmp_path / "not_there.txt").exists() and link.is_symlink()
