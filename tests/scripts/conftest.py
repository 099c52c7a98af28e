"""The lab: one for each test worker, as pytest may spread this folder's tests over several."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED
from tests.scripts.slurm_lab import SlurmLab, bring_up, take_down, why_not

TOOL = SHARED / "tools" / "slurm-lab"
SCRIPTS = ROOT / "puhti_slurm_scripts"


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
