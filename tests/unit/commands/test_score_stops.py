"""`python -m asdf score` in processes of its own: stopped, killed, in a pipe."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.networks import build_network
from asdf.networks.detector_file import write_network
from tests.unit.detector.conftest import small_settings, sound, write_small_network

ROOT = Path(__file__).parents[3]
COUNT = 12
SLOW = """
import time
import torch

class Slow(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.output = torch.nn.Linear(1, 2)

    def forward(self, waveforms_BT):
        time.sleep(0.25)
        loudness_B1 = waveforms_BT.square().mean(dim=1, keepdim=True)
        return loudness_B1, self.output(loudness_B1)
"""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A command that takes a quarter of a second for each recording, since all are of another length."""
    (tmp_path / "slow_network.py").write_text(SLOW)
    settings = small_settings(
        network_class="slow_network.Slow", max_evaluation_utterance_length_in_samples=32000
    )
    sys.modules.pop("slow_network", None)
    network = build_network(settings, tmp_path)
    write_network(tmp_path / "net.pt", network, settings)
    folder = tmp_path / "in"
    folder.mkdir()
    for index in range(COUNT):
        soundfile.write(folder / f"{index:02d}.wav", sound(9000 + index, index), 16000)
    monkeypatch.chdir(tmp_path)
    return ["net.pt", "in", "--network-folder", ".", "--device", "cpu"]


def start(*words, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "asdf", "score", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, **options
    )


def stop_after(process, lines, number):
    """Send a signal once so many lines were shown; the lines before it, the rest, what is on standard error."""
    shown = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    return shown, rest, errors.decode()


def rows():
    return list(csv.DictReader(Path("out.csv").open()))


def test_nothing_is_lost_however_it_ends(slow):
    outputs = ["--csv", "out.csv", "--json", "out.json"]
    process = start(*slow, *outputs)
    shown, _, errors = stop_after(process, 3, signal.SIGTERM)
    assert process.returncode == 143
    assert shown[0].startswith(b"in/00.wav\t")
    told = errors.splitlines()[-1]
    done = int(told.split()[3])
    assert told == (
        f"stopped by SIGTERM: {done} of {COUNT} recordings are done; the same command goes on from there"
    )
    assert 3 <= done < COUNT
    assert len(rows()) == done
    written = json.loads(Path("out.json").read_text())
    assert (written["complete"], len(written["recordings"])) == (False, done)

    process = start(*slow, *outputs)
    shown, _, errors = stop_after(process, done + 2, signal.SIGKILL)
    assert f"{done} of {COUNT} recordings were scored before: going on from there" in errors
    assert len(rows()) >= done
    assert json.loads(Path("out.json").read_text())["complete"] is False
    assert Path(".out.csv.progress").is_file()
    # What a kill while a table is written leaves.
    Path(".out.csv.x1.part").touch()
    Path(".out.json.x1.part").touch()
    soundfile.write("in/00.wav", sound(9500, 99), 16000)

    process = start(*slow, *outputs)
    lines, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    before = int(next(line for line in errors.decode().splitlines() if "before" in line).split()[0])
    # All that was shown, but the one that has changed.
    assert done + 1 <= before < COUNT
    names = [f"in/{index:02d}.wav" for index in range(COUNT)]
    assert [line.split("\t")[0] for line in lines.decode().splitlines()] == names
    written = json.loads(Path("out.json").read_text())
    assert written["complete"] is True
    assert not list(Path().glob(".out.*"))

    once = start(*slow, "--csv", "once.csv", "--json", "once.json")
    assert once.communicate(timeout=60)[0] == lines
    assert Path("once.csv").read_bytes() == Path("out.csv").read_bytes()
    assert json.loads(Path("once.json").read_text()) == written


def test_without_a_file_lines_come_at_once_and_ctrl_c_ends_it(slow):
    process = start(*slow)
    shown, _, errors = stop_after(process, 2, signal.SIGINT)
    assert process.returncode == 130
    assert [line.split(b"\t")[0] for line in shown] == [b"in/00.wav", b"in/01.wav"]
    told = errors.splitlines()[-1]
    assert told.startswith("stopped by Ctrl-C: ")
    assert told.endswith(
        " of 12 recordings are done; with --csv or --json the same command would go on from there"
    )


def test_standard_input_and_output(tmp_path, monkeypatch):
    """A recording through a pipe, and the table alone on standard output."""
    monkeypatch.chdir(tmp_path)
    network = write_small_network(tmp_path / "net.pt")
    samples = np.concatenate([sound(8000), sound(8000, 1)])
    soundfile.write("a.flac", samples, 16000)
    words = [network, "-", "a.flac", "--device", "cpu", "--csv", "-"]
    with Path("a.flac").open("rb") as recording:
        done = start(*words, stdin=recording)
        out, errors = done.communicate(timeout=60)
    assert done.returncode == 0
    table = list(csv.DictReader(out.decode().splitlines()))
    assert [row["path"] for row in table] == ["-", "a.flac"]
    assert table[0]["score"] == table[1]["score"]
    assert table[0]["seconds"] == "1.0"
    assert "a.flac\t" in errors.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.flac", "net.pt"]

    done = start(network, "-", "--json", "/dev/stdout", stdin=subprocess.DEVNULL)
    out, errors = done.communicate(timeout=60)
    assert done.returncode == 1
    (recording,) = json.loads(out)["recordings"]
    assert (recording["path"], recording["score"]) == ("-", None)
    assert recording["error"].startswith("- is empty (0 bytes)")
