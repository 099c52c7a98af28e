"""A program that a required package is missing for ends with one message."""

import os
import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from asdf_antispoofing.missing import REQUIRED
from tests.conftest import RECIPE, ROOT

# Runs a module or a file as Python does, without the packages that the first argument names.
WITHOUT = """
import os, runpy, sys
from importlib.machinery import PathFinder

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        return PathFinder.find_spec(name, path, target)

hidden = sys.argv[1].split(",")
sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
sys.argv = sys.argv[2:]
sys.path.insert(0, os.getcwd())
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def run_without(names: str, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", WITHOUT, names, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        (str(RECIPE / "run.py"), "--list"),
        ("asdf", "score", "network.pt", "a.wav"),
        ("benchmarks.small_detector", "--help"),
    ],
    ids=["recipe", "command", "benchmarks"],
)
def test_one_message_names_what_is_missing_and_installs_it(words) -> None:
    done = run_without("soundfile,tqdm", *words)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        f"error: ASDF needs soundfile, tqdm, which are not installed for {sys.executable}. Install "
        f"what is missing: {sys.executable} -m pip install soundfile tqdm\n"
    )


def test_another_missing_module_is_shown_as_python_shows_it(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import asdf\nimport no_such_module\n")
    done = run_without("soundfile", str(program))
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")


def test_what_is_required_is_what_the_installation_requires() -> None:
    lines = [line for line in requires("asdf-antispoofing") if "extra ==" not in line]
    names = [re.match(r"[\w-]+", line).group() for line in lines]
    assert sorted(names) == sorted(REQUIRED)


def test_a_recipe_of_a_checkout_that_is_not_installed_says_how_to_install_it() -> None:
    # Isolated and without site-packages, as a Python that knows nothing of the checkout.
    command = [sys.executable, "-I", "-S", str(RECIPE / "run.py"), "--list"]
    done = subprocess.run(command, cwd=RECIPE, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    install = f"{sys.executable} -m pip install -e ."
    assert done.stderr == f"error: ASDF is missing. In its checkout: {install}\n"
