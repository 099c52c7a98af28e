"""Groups of steps that crash, hang or fail are findings, and the examination goes on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from asdf.doctor.finding import MISSING, OK, WARNING, Finding
from asdf.doctor.running import run_group, run_program

# A step is under way when each of these begins.
STEP = """
import json, os, signal, sys, time
def say(**record):
    print("\\nasdf-doctor " + json.dumps(record), flush=True)
say(step="GPU", mend="see the driver", failed="missing")
say(finding={"name": "GPU", "status": "ok", "text": "fine", "mend": ""})
say(step="disk", mend="see the disk", failed="warning")
"""
FINE = Finding("GPU", OK, "fine")


def run(code: str, limit_s: float = 60.0) -> list[Finding]:
    return list(run_program([sys.executable, "-c", STEP + code], limit_s))


def test_what_was_seen_before_a_crash_stays():
    assert run("os.kill(os.getpid(), signal.SIGSEGV)") == [
        FINE,
        Finding("disk", WARNING, "ended early, killed by SIGSEGV", "see the disk"),
    ]


def test_the_last_words_of_a_failure_are_shown():
    words = "print('half a line', end=''); print(); sys.exit('no room\\n')"
    assert run(words)[1:] == [
        Finding("disk", WARNING, "ended early, exit status 1: no room", "see the disk")
    ]


@pytest.mark.slow
def test_a_step_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    child = tmp_path / "child"
    code = (
        "import subprocess\n"
        "process = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(child)!r}, 'w').write(str(process.pid))\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(600)"
    )
    assert run(code, limit_s=2.0) == [
        FINE,
        Finding("disk", WARNING, "no answer within 2 s", "see the disk"),
    ]
    number = int(child.read_text())
    until = time.monotonic() + 60
    while not is_dead(number):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_dead(number: int) -> bool:
    """Whether a process is gone, or only waits for being reaped by whoever inherited it."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_a_whole_group_ends_without_a_finding_of_its_own():
    assert run("say(end=True)") == [FINE]


def test_a_python_that_cannot_be_started_is_a_finding():
    (finding,) = run_program(["/nowhere/python"], 10.0)
    assert (finding.status, finding.text) == (
        MISSING,
        "Python cannot be started: No such file or directory",
    )


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("machine", ["system", "cores", "memory", "/dev/shm", "open files"]),
        ("decoders", ["libsndfile", "FFmpeg"]),
        ("slurm", ["Slurm"]),
    ],
)
def test_the_groups_look_at_what_they_should(group, names):
    findings = list(run_group(group, 120.0))
    assert [finding.name for finding in findings] == names
    for finding in findings:
        assert finding.text
        assert (finding.status == OK) or finding.mend


def test_torch_that_does_not_load_is_a_finding(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.14.1+cu130'\n")
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    first, *_ = run_group("torch", 120.0)
    assert (first.name, first.status, first.text) == (
        "torch",
        MISSING,
        "libcudart.so: no such file",
    )
    assert first.mend.startswith("pip install --force-reinstall 'torch>=2.11,<2.15'")
