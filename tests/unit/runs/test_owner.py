"""One run at a time in a system folder."""

import fcntl
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

from asdf.errors import AsdfError
from asdf.runs.layout import owner_lock

HOLD = """
import os, sys, time
from pathlib import Path
from asdf.runs.layout import owner_lock
with owner_lock(Path(sys.argv[1])):
    if sys.argv[2:] and os.fork() == 0:
        os.close(1)
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder, *words) -> subprocess.Popen:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder), *words], **pipes)
    assert process.stdout.readline() == "held\n"
    return process


def test_the_lock_goes_with_its_owner(tmp_path):
    with owner_lock(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["owner.lock"]
    assert not list(tmp_path.iterdir())


def test_a_second_run_is_refused(tmp_path):
    first = hold(tmp_path)
    message = f"another run is using {tmp_path}. Wait for it, stop it, or give this run another"
    with pytest.raises(AsdfError, match=message) as caught, owner_lock(tmp_path):
        pass
    assert caught.value.__cause__ is None
    first.communicate("")
    with owner_lock(tmp_path):
        pass


def test_a_killed_owner_leaves_no_lock(tmp_path):
    first = hold(tmp_path)
    first.kill()
    first.communicate()
    with owner_lock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_loader_processes_of_a_killed_owner_hold_no_lock(tmp_path):
    release = tmp_path / "release"
    first = hold(tmp_path / "system", str(release))
    first.kill()
    first.communicate()
    try:
        with owner_lock(tmp_path / "system"):
            pass
    finally:
        release.touch()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    said = r"cannot write in the system folder .*paths\.output_folder"
    with pytest.raises(AsdfError, match=said) as caught, owner_lock(tmp_path / "file" / "system"):
        pass
    assert caught.value.__cause__ is not None


def test_a_link_instead_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "victim.txt").write_text("precious")
    link = tmp_path / "system" / "owner.lock"
    link.parent.mkdir()
    for target in ("victim.txt", "not_there.txt"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        said = "cannot write in the system folder"
        with pytest.raises(AsdfError, match=said), owner_lock(tmp_path / "system"):
            pass
    assert (tmp_path / "victim.txt").read_text() == "precious"
    assert not (tmp_path / "not_there.txt").exists() and link.is_symlink()


def test_a_lock_that_its_owner_removed_meanwhile_is_none(tmp_path, monkeypatch):
    """Between the opening of the file and its lock, the owner ends: nobody holds what is gone."""
    owner = ExitStack()
    owner.enter_context(owner_lock(tmp_path))
    lock, late = fcntl.flock, []

    def lock_late(descriptor, operation):
        if operation & fcntl.LOCK_EX and not late:
            late.append(operation)
            owner.close()
        return lock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", lock_late)
    with suppress(AsdfError), owner_lock(tmp_path):
        assert (tmp_path / "owner.lock").exists()
    assert late
    # A later start gets it.
    with owner_lock(tmp_path):
        assert (tmp_path / "owner.lock").exists()
