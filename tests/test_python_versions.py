"""Every version of Python that this machine has reads the code, and the settings work there.

Nothing is installed for them: what needs torch is tested by hand, see CONTRIBUTING.md.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from asdf.settings import list_configs
from tests.conftest import PATIENCE_S, RECIPE, ROOT

OLDEST = 10
NEWEST = 14
RUN_CONFIGS = RECIPE / "configs" / "run_configs.py"
# A warning of the compiler, such as of a bad escape, is an error of a later version.
READ_ALL = """
import pathlib, sys
for folder in sys.argv[1:]:
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        if "configs" not in path.parts:
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
"""
LIST_CONFIGS = """
import sys
sys.path.insert(0, sys.argv[1])
from asdf.settings import list_configs
sys.stdout.buffer.write(list_configs(sys.argv[2]).encode())
"""


def interpreter(minor: int) -> str | None:
    """A Python 3.`minor` that runs, on the path or among those of pyenv."""
    candidates = [shutil.which(f"python3.{minor}")]
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates += map(str, sorted(versions.glob(f"3.{minor}.*/bin/python")))
    for candidate in filter(None, candidates):
        # pyenv puts programs on the path that only say that a version is not chosen.
        code = "import sys; print(sys.version_info[1])"
        ended = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        if ended.returncode == 0 and ended.stdout == f"{minor}\n":
            return candidate
    return None


@pytest.mark.slow
@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_a_version_of_python_reads_the_code_and_the_settings(minor):
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    folders = ("asdf", "asdf_antispoofing", "recipes", "benchmarks")
    read = subprocess.run(
        [python, "-I", "-W", "error", "-c", READ_ALL, *(str(ROOT / name) for name in folders)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (read.returncode, read.stderr) == (0, "")
    # Without any package: torch and numpy are not needed for the settings.
    listed = subprocess.run(
        [python, "-I", "-B", "-W", "error", "-c", LIST_CONFIGS, str(ROOT), str(RUN_CONFIGS)],
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert listed.stdout.decode() == list_configs(RUN_CONFIGS)


def test_the_project_claims_the_versions_that_were_tested():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    claimed = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    assert claimed == ["10", "11", "12", "13"]
    assert f'requires-python = ">=3.{claimed[0]}"' in text
