"""The page of what stays: its names exist, mean what it says, have examples, and do not change."""

import doctest
import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.conftest import ROOT
from tests.unit.conftest import small_settings, sound, write_small_network

PAGE = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
STABLE = PAGE[PAGE.index("\n## What stays\n") : PAGE.index("\n## Reference\n")]
ROWS = [
    (f"{module}.{name}", link)
    for module, names in re.findall(r"^\| `([\w.]+)` \| (.+) \|$", STABLE, re.MULTILINE)
    for name, link in re.findall(r"`(\w+)`(?:\]\(#([\w.]+)\))?", names)
]
NAMES = [name for name, _ in ROWS]
SIGNATURES = ROOT / "tests" / "fixtures" / "stable.txt"
# A recipe and its corpus, which examples name as users would theirs.
INIT_CONFIG = """
paths.database_folder = 'data'
paths.output_folder = 'output'
network.max_epochs = 3
"""
RUN_CONFIGS = """
small
front_end.architecture = 'tiny'
recipe.training_sets = ('mine',)
recipe.validation_sets = ('mine',)
recipe.evaluation_sets = ('mine',)
"""
FILES = {
    "run.py": "",
    "configs/init_config.py": INIT_CONFIG,
    "configs/run_configs.py": RUN_CONFIGS,
    "asv.txt": "S1 target 2.5\nS1 target 3\nS2 nontarget -1\nA01 spoof 1.5\n",
    "data/mine/train.txt": "a.flac 1\nb.flac 0\n",
}


def named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def signature(name: str) -> str:
    """Return a name with the parameters that callers may pass, and their defaults."""
    found = inspect.signature(named(name))
    parameters = []
    for parameter in found.parameters.values():
        if not parameter.name.startswith("_"):
            parameters.append(parameter.replace(annotation=inspect.Parameter.empty))
    shown = str(inspect.Signature(parameters))
    # How a default is shown is the version of Python's.
    return f"{name}{re.sub('PosixPath|WindowsPath', 'Path', shown)}"


def test_about_sixty_names_stay() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert 50 <= len(NAMES) <= 65


@pytest.mark.parametrize(("name", "link"), ROWS, ids=NAMES)
def test_a_name_is_there_and_says_what_it_is(name: str, link: str) -> None:
    value = named(name)
    assert (inspect.getdoc(value) or "").split("\n\n")[0].strip()
    if link:
        assert f"\n::: {link}\n" in PAGE
        assert named(link) is value


def test_every_name_of_the_api_pages_stays() -> None:
    documented = set(re.findall(r"^::: ([\w.]+)$", PAGE, re.MULTILINE))
    assert documented == {link for _, link in ROWS if link}


def test_signatures_are_those_of_the_file() -> None:
    """ASDF_FREEZE=1 writes them; a change goes into the changelog with the version it works until.

    Names and defaults of parameters, and their order, are what callers rest on.
    """
    shown = [signature(name) for name in NAMES]
    if os.environ.get("ASDF_FREEZE"):
        SIGNATURES.write_text("\n".join(shown) + "\n", encoding="utf-8")
    assert shown == SIGNATURES.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The folder in which examples run, with the files that they name."""
    folder = tmp_path_factory.mktemp("examples")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    values = {
        "network_class": "asdf.networks.AASIST_L",
        "min_evaluation_utterance_length_in_samples": 16000,
        "max_evaluation_utterance_length_in_samples": 64600,
    }
    write_small_network(folder / "network.pt", small_settings(**values))
    for name in ("call.wav", "data/mine/a.flac", "data/mine/b.flac"):
        soundfile.write(folder / name, sound(32000), 16000)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_and_gives_what_it_shows(name: str, files: Path, monkeypatch) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    value = named(name)
    # A base class's own text, not what `inspect` takes from its parent.
    [example] = doctest.DocTestFinder(recurse=False).find(value, name)
    assert example.examples, f"{name} has no example"
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.failed == 0
