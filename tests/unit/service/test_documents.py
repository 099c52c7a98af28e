"""The code of docs/service.md runs as it stands there, and its tables name what there is."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest
import soundfile

from asdf.service import ServiceLimits
from tests.conftest import ROOT
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, running

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


SCALE = (ROOT / "docs" / "service_at_scale.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a recording, in which examples are run."""
    soundfile.write(tmp_path / "call.wav", sound(40000), 16000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example(served, folder, capsys, detector):
    code, _ = blocks("python")
    exec(code.replace(ADDRESS, served.url), {})  # the file is our own
    score, verdict = capsys.readouterr().out.split()
    assert float(score) == pytest.approx(detector.score_whole(folder / "call.wav").score, abs=1e-6)
    assert verdict == "None"


def test_the_example_of_a_call(served, folder, capsys, detector):
    pytest.importorskip("websockets", reason="calls need the package websockets")
    _, code = blocks("python")
    exec(code.replace(ADDRESS.replace("http", "ws"), served.url.replace("http", "ws")), {})
    *windows, last = capsys.readouterr().out.splitlines()
    samples, _ = soundfile.read(folder / "call.wav", dtype="int16")
    stream = detector.stream(16000, window_s=1, hop_s=1)
    expected = stream.add(samples) + stream.finish()
    lines = [f"{w.start_s:.1f} to {w.end_s:.1f} s: {w.score:.2f} None" for w in expected]
    assert windows == lines
    assert last == f"the call: {float(stream.score):.2f} None"


def test_the_example_of_tritons_client(served, folder, capsys, detector):
    pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    (code,) = blocks("python", SCALE)
    host = served.url.removeprefix("http://")
    code = code.replace("127.0.0.1:8000", host).replace('"network"', '"plain"')
    exec(code, {})
    score, _ = capsys.readouterr().out.split(" ", 1)
    assert float(score) == pytest.approx(detector.score_whole(folder / "call.wav").score, abs=1e-6)


def test_the_shell_examples(served, folder):
    asking, token = blocks("bash")
    done = subprocess.run(
        ["bash", "-e", "-c", asking.replace(ADDRESS, served.url)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count('"recordings":[{"path":') == 2
    assert done.stdout.count('"windows":') == 1
    subprocess.run(["bash", "-e", "-c", token], check=True)
    assert len((folder / "token").read_text()) > 32
    assert (folder / "token").stat().st_mode & 0o777 == 0o600


def test_the_limits_are_those_that_there_are():
    for name, value in vars(ServiceLimits()).items():
        option = f"--{name.replace('_', '-')}"
        rows = [line for line in PAGE.splitlines() if line.startswith("| `--")]
        row = next(line for line in rows if option in line.partition(" | ")[0])
        options = re.findall(r"--[\w-]+", row.split("|")[1])
        values = [text.strip() for text in row.split("|")[2].split(",")]
        assert values[options.index(option)] == f"{value:g}"


def test_the_metrics_are_those_that_there_are(detector):
    with running(detector, replace(LIMITS, queue=2)) as served:
        numbers = served.ask("/metrics").content.decode()
    for name in re.findall(r"`(asdf_\w+)`", PAGE + SCALE):
        assert f"# TYPE {name.removesuffix('_total')}" in numbers
