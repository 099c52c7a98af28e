"""What people see of `python -m asdf score` on a real terminal, and pipes do not."""

import fcntl
import logging
import os
import pty
import re
import struct
import subprocess
import termios
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.metrics.calibration import Calibration
from asdf.runs.log import track
from tests.unit.conftest import sound, write_small_network

COLUMNS = 80
LONG = "a folder of interviews/" + "Interview with the minister " * 3 + "final cut.wav"
COLOURS = re.compile(r"\x1b\[\d*m")
# Of the bar, which is drawn over itself.
ERASED = re.compile(r"[^\n]*\r(?!\n)|\x1b\[[A-K]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "in" / LONG).parent.mkdir(parents=True)
    soundfile.write(folder / "in" / LONG, sound(9000), 16000)
    soundfile.write(folder / "in" / "b.wav", sound(30000, 1), 16000)
    soundfile.write(folder / "in" / "c.wav", np.zeros(9000), 16000)
    (folder / "in" / "d.wav").write_bytes(b"RIFF")
    write_small_network(folder / "network.pt")
    return folder


def on_terminal(python: str, folder: Path, *options: str, **variables: str) -> tuple[str, str]:
    """Return standard output and error of the command on terminals of 80 columns."""
    screens = [pty.openpty() for _ in range(2)]
    for _, inner in screens:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **variables}
    for name in ("COLUMNS", "NO_COLOR"):
        if name not in variables:
            environment.pop(name, None)
    words = ["score", "network.pt", "in", "--device", "cpu", *options]
    streams = {"stdin": subprocess.DEVNULL, "stdout": screens[0][1], "stderr": screens[1][1]}
    command = [python, "-m", "asdf", *words]
    process = subprocess.Popen(command, cwd=folder, env=environment, **streams)
    for _, inner in screens:
        os.close(inner)
    shown = [read_all(outer).replace("\r\n", "\n") for outer, _ in screens]
    assert process.wait() == 1
    return shown[0], shown[1]


def read_all(terminal: int) -> str:
    content = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # of Linux, once nobody writes to it any more
            break
        if not part:
            break
        content += part
    os.close(terminal)
    return content.decode()


@pytest.mark.slow
def test_a_terminal_gets_columns_and_a_summary_and_a_pipe_what_it_always_got(warm, folder):
    out, errors = on_terminal(warm(), folder, "--threshold", "-1000")
    assert errors.startswith("loading the network ...\n")
    assert "; higher: more bona fide; 1 thread" in errors
    lines = [line for line in ERASED.sub("", out).split("\n") if line]
    plain = [COLOURS.sub("", line) for line in lines]
    assert max(map(len, plain)) <= COLUMNS
    rows = [line for line in plain[:-1] if not line.startswith("    ")]
    command = [warm(), "-m", "asdf", "score", "network.pt", "in", "--threshold", "-1000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    piped = done.stdout.splitlines()
    cells = {line.split("\t")[0]: line.split("\t")[1:] for line in piped}
    long = f"in/{LONG}"
    assert list(cells) == ["in/b.wav", "in/c.wav", "in/d.wav", long]
    # In the order of the fields, aligned, with what is left of the terminal for names.
    room = COLUMNS - len("  -1234.5678  not judged")
    assert rows[0] == f"{'in/b.wav':<{room}}  {cells['in/b.wav'][0]:>10}  bona fide "
    assert rows[1] == f"{'in/c.wav':<{room}}  {cells['in/c.wav'][0]:>10}  not judged"
    assert rows[2] == f"{'in/d.wav':<{room}}  {'':>10}  error     "
    name, between, rest = rows[3].partition("final cut.wav")
    assert name.startswith("in/a folder of interviews/") and "…" in name and between
    assert rest == f"  {cells[long][0]:>10}  bona fide " and len(rows[3]) == COLUMNS
    assert cells["in/d.wav"] == ["error"]
    notes = [line.strip() for line in plain if line.startswith("    ")]
    assert notes[0] == cells["in/b.wav"][2]
    assert plain[-1] == "4 recordings: 2 bona fide, 0 spoof, 1 not judged, 1 not scored"
    assert lines[0].endswith("  \x1b[32mbona fide \x1b[0m")
    assert "\x1b[33mnot judged\x1b[0m" in out
    assert "\x1b" not in "".join(piped)


@pytest.mark.slow
def test_colours_can_be_switched_off(warm, folder):
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        out, _ = on_terminal(warm(), folder, "--threshold", "1000", **variables)
        assert "  spoof     \n" in out and not COLOURS.search(out)
    out, _ = on_terminal(warm(), folder, "--threshold", "1000")
    assert "\x1b[31mspoof     \x1b[0m" in out


def test_without_a_threshold_there_is_no_verdict(warm, folder):
    out, _ = on_terminal(warm(), folder)
    assert not COLOURS.search(out)
    rows = re.findall(r"^in/(\w).* +(\S+)$", ERASED.sub("", out), re.MULTILINE)
    assert [name for name, _ in rows] == ["b", "c", "d", "a"]
    assert rows[2] == ("d", "error")
    assert out.rstrip().endswith("4 recordings: 3 scored, 1 not")


@pytest.mark.parametrize(
    ("done", "elapsed_s", "unit", "shown"),
    [
        (30, 10.0, "windows", "3.0 windows/s"),
        (1, 12.07, "windows", "12.1 s per window"),
        (2, 5.0, "batches", "2.5 s per batch"),
    ],
)
def test_slow_work_has_seconds_per_window(done, elapsed_s, unit, shown, monkeypatch, caplog):
    clock_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock_s[0])
    steps = track(range(done + 1), done + 1, "work", lines_every=done, unit=unit)
    next(steps)
    clock_s[0] = elapsed_s
    with caplog.at_level(logging.INFO, "asdf.progress"):
        assert list(steps) == list(range(1, done + 1))
    assert caplog.messages == [f"work: {done} of {done + 1}, {shown}"]


def test_what_limits_all_verdicts_is_amber_before_anything_is_scored(warm, tmp_path):
    (tmp_path / "in").mkdir()
    soundfile.write(tmp_path / "in" / "a.wav", sound(9000), 16000)
    (tmp_path / "in" / "b.wav").write_bytes(b"RIFF")
    calibration = Calibration(1.0, 5.0, 0.0, lowest_llr=-0.9, highest_llr=0.9).content()
    write_small_network(tmp_path / "network.pt", calibration=calibration)
    out, errors = on_terminal(warm(), tmp_path)
    amber = re.search(r"\x1b\[33m([^\x1b]*)\x1b\[0m", errors)
    assert amber is not None
    assert amber[1].endswith("so all of its verdicts are 'undecided'.")
    assert "\x1b[90mundecided" in out and "\x1b[32m" not in out and "\x1b[31m" not in out
    # NO_COLOR stands, for this as for verdicts.
    out, errors = on_terminal(warm(), tmp_path, NO_COLOR="1")
    assert "all of its verdicts are 'undecided'" in errors and "\x1b[33m" not in errors
