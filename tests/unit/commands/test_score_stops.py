"""`python -m asdf score` in separate processes: stopped, killed, in a pipe."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from tests.conftest import PATIENCE_S
from tests.unit.conftest import small_settings, sound, write_small_network

ROOT = Path(__file__).parents[3]
COUNT = 12
HELD = """
import os, time
import torch

class Held(torch.nn.Module):
    '''Stays in its pass number HOLD_AT, and leaves a file `held` to say so.'''

    def __init__(self, settings):
        super().__init__()
        self.output = torch.nn.Linear(1, 2)
        self.passes = 0

    def forward(self, waveforms_BT):
        self.passes += 1
        if self.passes == int(os.environ.get("HOLD_AT", "0")):
            open("held", "w").close()
            time.sleep(1000)
        loudness_B1 = waveforms_BT.square().mean(dim=1, keepdim=True)
        return loudness_B1, self.output(loudness_B1)
"""


@pytest.fixture
def start(warm):
    """A function that starts `python -m asdf score` with words and variables of a test."""

    def start_scoring(*words, hold_at=0, **options):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOLD_AT": str(hold_at)}
        command = [warm(), "-m", "asdf", "score", *map(str, words)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, **options
        )

    return start_scoring


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A command that takes a pass for each recording, since all are of another length."""
    (tmp_path / "held_network.py").write_text(HELD)
    settings = small_settings(
        network_class="held_network.Held", max_evaluation_utterance_length_in_samples=32000
    )
    sys.modules.pop("held_network", None)
    network = build_network(settings, tmp_path)
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    folder = tmp_path / "in"
    folder.mkdir()
    for index in range(COUNT):
        soundfile.write(folder / f"{index:02d}.wav", sound(9000 + index, index), 16000)
    monkeypatch.chdir(tmp_path)
    return ["net.pt", "in", "--network-folder", ".", "--device", "cpu"]


def stop_after(process, lines, number):
    """Send a signal in the pass that holds; return `lines` of output before it, rest, stderr."""
    shown = [process.stdout.readline() for _ in range(lines)]
    until = time.monotonic() + PATIENCE_S
    while not Path("held").exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    Path("held").unlink()
    process.send_signal(number)
    rest, errors = process.communicate(timeout=PATIENCE_S)
    return shown, rest, errors.decode()


def rows():
    return list(csv.DictReader(Path("out.csv").open()))


@pytest.mark.slow
def test_nothing_is_lost_however_it_ends(held, start):
    outputs = ["--csv", "out.csv", "--json", "out.json"]
    process = start(*held, *outputs, hold_at=6)
    shown, _, errors = stop_after(process, 3, signal.SIGTERM)
    assert process.returncode == 143
    assert shown[0].startswith(b"in/00.wav\t")
    done = f"5 of {COUNT} recordings are done; the same command resumes from there"
    assert errors.splitlines()[-1] == f"stopped by SIGTERM: {done}"
    assert len(rows()) == 5
    written = json.loads(Path("out.json").read_text())
    assert (written["complete"], len(written["recordings"])) == (False, 5)

    process = start(*held, *outputs, hold_at=4)
    shown, _, errors = stop_after(process, 8, signal.SIGKILL)
    assert f"5 of {COUNT} recordings were scored before: resuming from there" in errors
    assert len(rows()) >= 5
    assert json.loads(Path("out.json").read_text())["complete"] is False
    assert Path(".out.csv.progress").is_file()
    # What a kill while a table is written leaves.
    Path(".out.csv.x1.part").touch()
    Path(".out.json.x1.part").touch()
    soundfile.write("in/00.wav", sound(9500, 99), 16000)

    process = start(*held, *outputs)
    lines, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    before = int(next(line for line in errors.decode().splitlines() if "before" in line).split()[0])
    # All that was shown, but the one that has changed.
    assert before == 7
    names = [f"in/{index:02d}.wav" for index in range(COUNT)]
    assert [line.split("\t")[0] for line in lines.decode().splitlines()] == names
    written = json.loads(Path("out.json").read_text())
    assert written["complete"] is True
    assert not list(Path().glob(".out.*"))

    once = start(*held, "--csv", "once.csv", "--json", "once.json")
    assert once.communicate(timeout=PATIENCE_S)[0] == lines
    assert Path("once.csv").read_bytes() == Path("out.csv").read_bytes()
    at_once = json.loads(Path("once.json").read_text())
    for made in (at_once, written):
        del made["made_by"]["date"]
        # The command names its own outputs.
        command = made["made_by"].pop("command")
        assert command.startswith("asdf-antispoofing score ") and ".json" in command
    assert at_once == written


def test_without_a_file_lines_come_at_once_and_ctrl_c_ends_it(held, start):
    process = start(*held, hold_at=3)
    shown, _, errors = stop_after(process, 2, signal.SIGINT)
    assert process.returncode == 130
    assert [line.split(b"\t")[0] for line in shown] == [b"in/00.wav", b"in/01.wav"]
    done = f"stopped by Ctrl-C: 2 of {COUNT} recordings are done"
    resume = "with --csv or --json the same command could resume from there"
    assert errors.splitlines()[-1] == f"{done}; {resume}"


def test_standard_input_and_output(tmp_path, monkeypatch, start):
    """A recording through a pipe, and the table alone on standard output."""
    monkeypatch.chdir(tmp_path)
    network = write_small_network(tmp_path / "net.pt")
    samples = np.concatenate([sound(8000), sound(8000, 1)])
    soundfile.write("a.flac", samples, 16000)
    words = [network, "-", "a.flac", "--device", "cpu", "--csv", "-"]
    with Path("a.flac").open("rb") as recording:
        done = start(*words, stdin=recording)
        out, errors = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0
    table = list(csv.DictReader(out.decode().splitlines()))
    assert [row["path"] for row in table] == ["-", "a.flac"]
    assert table[0]["score"] == table[1]["score"]
    assert table[0]["seconds"] == "1.0"
    assert "a.flac\t" in errors.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.flac", "net.pt"]

    done = start(network, "-", "--json", "/dev/stdout", stdin=subprocess.DEVNULL)
    out, errors = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 1
    (recording,) = json.loads(out)["recordings"]
    assert (recording["path"], recording["score"]) == ("-", None)
    assert recording["error"].startswith("- is empty (0 bytes)")
