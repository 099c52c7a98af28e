"""A wheel built once per session, and environments that it is installed in."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import PATIENCE_S, ROOT

# All that a wheel is made from.
SOURCES = ("asdf", "asdf_antispoofing", "recipes", "setup.py", "pyproject.toml", "README.md")
FURTHER = ("LICENSE", "MANIFEST.in")
NOT_BUILT = shutil.ignore_patterns("__pycache__", "output", "*.egg-info")


@dataclass
class Environment:
    """A virtual environment that sees the packages of this one, but not its ASDF."""

    folder: Path

    @property
    def site(self) -> Path:
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def program(self) -> str:
        return str(self.folder / "bin" / "asdf-antispoofing")

    def install(self, *words: str) -> None:
        run_pip("--python", self.python, "install", "--no-deps", "--no-compile", *words)

    def uninstall(self, name: str) -> None:
        run_pip("--python", self.python, "uninstall", "--yes", name)

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder without ASDF's sources."""
        variables = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        return subprocess.run(
            command,
            cwd=folder or self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def call(self, code: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, *options, "-c", code)


def run_pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def copy_sources(folder: Path) -> Path:
    """Copy what a wheel is made from: building leaves files next to it."""
    folder.mkdir()
    for name in (*SOURCES, *FURTHER):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=NOT_BUILT)
        else:
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built by whichever worker comes first."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / "wheel"
    with FileLock(base / "wheel.lock"):
        if not folder.exists():
            source = copy_sources(base / "wheel-sources")
            unfinished = base / "wheel.part"
            run_pip(
                "wheel", "--no-deps", "--no-build-isolation", "-w", str(unfinished), str(source)
            )
            unfinished.rename(folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture
def environment(tmp_path) -> Environment:
    """An environment without ASDF."""
    made = Environment(tmp_path / "venv")
    venv.create(made.folder, with_pip=False, symlinks=True)
    # A .pth file in that folder is not read: an editable ASDF there stays out of sight.
    (made.site / "packages.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return made


@pytest.fixture
def installed(environment, wheel) -> Environment:
    """An environment with the wheel."""
    environment.install(str(wheel))
    return environment
