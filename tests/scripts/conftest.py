"""The lab, the browser and what its microphone hears: one of each for a test worker."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import ROOT, SHARED
from tests.scripts.chromium import start_browser
from tests.scripts.slurm_lab import SlurmLab, bring_up, take_down, why_not
from tests.unit.conftest import sound

TOOL = SHARED / "tools" / "slurm-lab"
SCRIPTS = ROOT / "puhti_slurm_scripts"
# Of its windows of a second, the loud ones in the middle score differently.
SPEECH = np.concatenate([0.02 * sound(48000), sound(48000, 1), 0.02 * sound(40000, 2)])


@pytest.fixture(scope="session")
def recording(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("speech") / "two halves.wav"
    soundfile.write(path, SPEECH, 16000)
    return path


@pytest.fixture(scope="session")
def browser(tmp_path_factory, recording) -> Iterator[Any]:
    """A browser whose microphone hears the recording; each test leaves it as it was."""
    browser = start_browser(
        tmp_path_factory.mktemp("chromium"),
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={recording}",
        "--autoplay-policy=no-user-gesture-required",
    )
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def running_lab():
    reason = why_not(TOOL)
    if reason:
        pytest.skip(reason)
    base = Path(tempfile.mkdtemp(prefix="slurm-"))
    base.chmod(0o755)
    before = dict(os.environ)
    try:
        os.environ.update(bring_up(TOOL, base / "lab"))
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        take_down(TOOL, base / "lab")
        shutil.rmtree(base)


@pytest.fixture
def lab(running_lab, tmp_path) -> SlurmLab:
    """Slurm, and a folder to submit from that holds the job scripts."""
    folder = tmp_path / "project folder"
    folder.mkdir()
    (folder / "puhti_slurm_scripts").symlink_to(SCRIPTS)
    return SlurmLab(SCRIPTS, folder)
