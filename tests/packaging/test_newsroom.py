"""The page for newsrooms leads from a wheel to a verdict: its own commands, in an empty folder."""

import re
import shlex
import shutil

import numpy as np
import pytest
import soundfile

import asdf
from tests.conftest import ROOT
from tests.documents.blocks import blocks_of, commands_of

PAGE = (ROOT / "docs" / "newsroom.md").read_text(encoding="utf-8")
VERDICTS = ("bona fide", "spoof", "mixed", "undecided")


def commands() -> list[str]:
    blocks = [block for block in blocks_of(PAGE) if block.kind == "shell"]
    return [command for block in blocks for command in commands_of(block)]


def test_the_page_installs_this_wheel_with_what_its_commands_need(wheel):
    (line,) = [command for command in commands() if ".whl" in command]
    assert shlex.split(line) == ["pip", "install", f"./{wheel.name}[hub,serve]"]
    # A torch outside of these bounds would be replaced by one of another index.
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (bounds,) = re.findall(r'"torch(>=[^"]*)"', project)
    (without_gpu,) = [command for command in commands() if "--index-url" in command]
    assert bounds.partition(",")[2] in without_gpu
    for page in ("README.md", "docs/start.md"):
        assert without_gpu in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_end_in_a_verdict(installed, tmp_path, corpus):
    work = tmp_path / "desk"
    detector = asdf.Detector()
    voices = sorted(corpus.rglob("*.flac"), key=detector.score_trial)
    for position, path in enumerate(voices):
        # The detector is right but for two of each: demo voices are none that it knows.
        is_genuine = (2 * position >= len(voices)) != (position in (1, 2, 39, 40))
        folder = work / "recordings" / ("real" if is_genuine else "fake")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)
    call = np.concatenate([soundfile.read(path)[0] for path in voices[:8]])
    soundfile.write(work / "call.mp3", call, 16000, format="MP3")
    run = [c for c in commands() if c.startswith("asdf-antispoofing") and " serve" not in c]
    assert [shlex.split(command)[1] for command in run] == [
        *("doctor", "detectors", "detectors", "calibrate", "score", "case")
    ]
    for command in run:
        words = shlex.split(command)
        ended = installed.run(installed.program, *words[1:], folder=work)
        assert ended.returncode == 0 or words[1] == "doctor", ended.stdout + ended.stderr
        if words[1] in ("score", "case"):
            path, score, verdict = ended.stdout.split("\t")[:3]
            assert (path, verdict.strip() in VERDICTS) == ("call.mp3", True)
            assert np.isfinite(float(score))
    page = (work / "case.html").read_text(encoding="utf-8")
    assert len(voices) == 42
    assert "recordings: 21 bona fide and 21 spoofed recordings" in page
