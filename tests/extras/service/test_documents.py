"""The code of docs/service.md runs as it stands there, and its tables name what there is."""

import re
import subprocess
from dataclasses import replace

import pytest
import soundfile

from asdf.extras.service import ServiceLimits
from tests.conftest import ROOT
from tests.extras.service.conftest import LIMITS, running
from tests.unit.conftest import sound

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a recording, in which examples are run."""
    soundfile.write(tmp_path / "call.wav", sound(40000), 16000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example(served, folder, capsys, detector):
    (code,) = blocks("python")
    exec(code.replace(ADDRESS, served.url), {})  # the file is our own
    score, verdict = capsys.readouterr().out.split()
    assert float(score) == pytest.approx(detector.score_whole(folder / "call.wav").score, abs=1e-6)
    assert verdict == "None"


def test_the_shell_examples(served, folder):
    asking, token = blocks("bash")
    command = ["bash", "-e", "-c", asking.replace(ADDRESS, served.url)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count('"recordings":[{"path":') == 2
    assert done.stdout.count('"windows":') == 1
    subprocess.run(["bash", "-e", "-c", token], check=True)
    assert len((folder / "token").read_text()) > 32
    assert (folder / "token").stat().st_mode & 0o777 == 0o600


def test_the_limits_are_those_that_there_are():
    limits = vars(ServiceLimits())
    for name in ("max_mb", "max_seconds", "queue"):
        option = f"--{name.replace('_', '-')}"
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{option}`"))
        assert row.split("|")[2].strip() == f"{limits[name]:g}"
    for name in ("head_s", "upload_s", "request_s", "stop_s"):
        assert f"{limits[name]:g} s" in PAGE
    assert f"{limits['connections']} connections" in PAGE


def test_the_metrics_are_those_that_there_are(detector):
    with running(detector, replace(LIMITS, queue=2)) as served:
        numbers = served.ask("/metrics").content.decode()
    for name in re.findall(r"`(asdf_\w+)`", PAGE):
        assert f"# TYPE {name.removesuffix('_total')}" in numbers
