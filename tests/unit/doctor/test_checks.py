"""What the doctor says of a machine that lacks something."""

import os
import shutil
import subprocess
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from asdf.doctor import command as checks
from asdf.doctor.command import MISSING, OK, WARNING
from tests.conftest import ROOT


def named(findings) -> dict[str, checks.Finding]:
    return {finding.name: finding for finding in findings}


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(tmp_path, monkeypatch):
    def fail():
        raise OSError("libcudart.so: no such file")

    monkeypatch.setattr(checks, "look_at_torch", fail)
    monkeypatch.chdir(tmp_path)
    findings = named(checks.examine())
    assert findings["torch"].status == MISSING
    assert findings["torch"].text == "libcudart.so: no such file"
    assert findings["torch"].mend.startswith("pip install --force-reinstall 'torch>=")
    assert f"folder {tmp_path}" in findings


@pytest.mark.slow
def test_torch_that_does_not_load_is_a_finding(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.14.1'\n")
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('no libtorch')\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "asdf", "doctor"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "missing   torch: no libtorch\n" in ended.stdout and "libsndfile: " in ended.stdout


def test_a_machine_with_little_shared_memory_is_warned_of(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**30, 0, 2**26))
    finding = named(checks.look_at_machine())["/dev/shm"]
    assert finding.status == WARNING
    assert "computing.network_dataloader_workers = 0" in finding.mend


def test_more_threads_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    finding = named(checks.look_at_machine())["cores"]
    assert finding.status == WARNING
    assert "OMP_NUM_THREADS=4096: threads would compete for cores" in finding.text
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert named(checks.look_at_machine())["cores"].status == OK


def test_a_folder_is_written_to_and_left_as_it_was(tmp_path):
    (finding,) = checks.look_at_folder(tmp_path)
    assert finding.status in (OK, WARNING)
    assert "cannot be written" not in finding.text
    assert not list(tmp_path.iterdir())
    (finding,) = checks.look_at_folder(tmp_path / "new" / "deep")
    assert f"(of {tmp_path}: it does not exist yet)" in finding.text
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_missing():
    # Not by its permissions: root may write anywhere but there.
    (finding,) = checks.look_at_folder(Path("/proc/self"))
    assert finding.status == MISSING
    assert "paths.output_folder" in finding.mend


def test_extras_are_those_of_the_distribution(monkeypatch):
    requirements = ["numpy", 'numpy; extra == "one"', 'no-such-package; extra == "two"']
    monkeypatch.setattr(metadata, "requires", lambda name: requirements)
    finding = named(checks.look_at_asdf())["extras"]
    assert (finding.status, finding.text, finding.mend) == (
        OK,
        "installed: one; not installed: two",
        "where needed: pip install 'asdf-antispoofing[two]'",
    )


def test_a_codec_counts_only_if_sound_comes_back(monkeypatch):
    monkeypatch.setitem(checks._FORMATS, "flac", ("FLAC", "OPUS"))
    (finding,) = checks.look_at_libsndfile()
    assert finding.status == MISSING and finding.text.endswith("; not flac")
