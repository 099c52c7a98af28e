"""The notebooks run in an empty folder, and what they show is what this version of ASDF shows."""

import ast
import base64
import hashlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from asdf.__main__ import module_name
from asdf.version import VERSION
from docs.notebook_pages import read_notebook
from docs.run_notebooks import FOLDER, PAGES, made_by, run
from tests.conftest import ROOT
from tests.documents.blocks import Block, commands_of

NAMES = ("first_paper", "first_verdict")
KB = 1000
MAX_PICTURE = 60 * KB
MAX_NOTEBOOK = 300 * KB
# Folders of machines, and days: none of them is the reader's.
MACHINE = re.compile(r"/(?:tmp|home|root|work|opt|usr|var)/|\b20\d\d-\d\d-\d\d\b")
NUMBER = re.compile(r"[-+−]?\d[\d,.]*")


def notebook_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def code_of(name: str) -> list[tuple[str, dict[str, Any]]]:
    cells = [cell for cell in notebook_of(name)["cells"] if cell["cell_type"] == "code"]
    return [("".join(cell["source"]), cell) for cell in cells]


def python_of(name: str) -> str:
    """All Python of a notebook, without IPython's own lines."""
    sources = [source for source, _ in code_of(name) if not source.startswith("%%")]
    return re.sub(r"^%.*$", "", "\n".join(sources), flags=re.MULTILINE)


def texts_of(cell: dict[str, Any]) -> list[str]:
    texts = []
    for output in cell["outputs"]:
        shown = output.get("data", {}).get("text/plain", "")
        texts.append("".join(output.get("text", shown)))
    return texts


def test_all_notebooks_are_tested() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_of_these_cells_and_this_version(name: str) -> None:
    notebook = notebook_of(name)
    # Written out: a version that changes, or a word of a cell, asks for another run.
    digest = hashlib.sha256()
    for cell in notebook["cells"]:
        digest.update(f"{cell['cell_type']}\n{''.join(cell['source'])}\n".encode())
    expected = {"version": VERSION, "cells": digest.hexdigest()}
    assert notebook["metadata"]["asdf"] == expected, "run: python -m docs.run_notebooks"
    cells = [cell for _, cell in code_of(name)]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data", "execute_result"}


@pytest.mark.parametrize("name", NAMES)
def test_python_compiles_and_imports_what_exists(name: str) -> None:
    tree = ast.parse(python_of(name))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert len(imported) >= 3
    for node in imported:
        module = importlib.import_module(node.module)
        for alias in node.names:
            assert hasattr(module, alias.name), (node.module, alias.name)


@pytest.mark.parametrize("name", NAMES)
def test_commands_have_these_options(name: str) -> None:
    commands = 0
    for source, _ in code_of(name):
        if not source.startswith("%%bash"):
            continue
        for line in commands_of(Block(1, "shell", source)):
            match = re.match(r"python -m asdf ([\w-]+) ?([^|]*)", line)
            if match is None:
                continue
            module = importlib.import_module(module_name(match[1]))
            options = re.findall(r"(?<=\s)--[a-z][\w-]*", f" {match[2]}")
            shown = re.findall(r"--[a-z][\w-]*", module.COMMAND.parser().format_help())
            assert set(options) <= set(shown), (match[1], options)
            commands += 1
    assert commands >= 4


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_small_and_of_no_machine(name: str) -> None:
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MAX_NOTEBOOK
    for source, cell in code_of(name):
        for text in texts_of(cell):
            assert not MACHINE.search(text), (source, text)
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                assert len(base64.b64decode("".join(output["data"]["image/png"]))) < MAX_PICTURE
                assert cell["metadata"]["alt"], source
    assert (FOLDER / PAGES[name][2]).stat().st_size < 2 * MAX_PICTURE


@pytest.mark.parametrize("name", NAMES)
def test_links_and_pictures_of_the_text_exist(name: str) -> None:
    cells = [cell for cell in notebook_of(name)["cells"] if cell["cell_type"] == "markdown"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    links = re.findall(r"\]\(([^)#]+)", text)
    assert len(links) >= 6
    for link in links:
        assert (FOLDER / link).is_file(), link


def test_a_page_has_text_code_and_pictures_in_their_order() -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]},
        {
            "cell_type": "code",
            "metadata": {"alt": "two lines"},
            "source": ["%%bash\n", "ls"],
            "outputs": [
                {"output_type": "stream", "text": ["a\n", "```\n"]},
                {"output_type": "display_data", "data": {"image/png": png, "text/plain": "<F>"}},
            ],
        },
        {"cell_type": "code", "metadata": {}, "source": ["1 + 1"], "outputs": []},
    ]
    page = read_notebook(json.dumps({"cells": cells}), "sums")
    lines = [line for line in page.markdown.splitlines() if line]
    assert lines[0] == "# Title" and "docs/notebooks/sums.ipynb" in lines[1]
    shown = ["Text.", "```bash", "ls", "```", "````text", "a", "```", "````"]
    assert lines[2:] == [*shown, "![two lines](sums_1.png)", "```python", "1 + 1", "```"]
    assert page.pictures == {"sums_1.png": b"\x89PNG"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_an_empty_folder(name: str, tmp_path: Path, monkeypatch) -> None:
    """The same cells give the same words; last digits are a processor's."""
    pytest.importorskip("nbclient", reason="pip install '.[test-all]'")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = notebook_of(name)
    executed = run(stored, tmp_path)
    assert made_by(executed) == made_by(stored)
    for old, new in zip(stored["cells"], executed["cells"], strict=True):
        if old["cell_type"] == "code":
            words = [NUMBER.sub("0", text).split() for text in map("".join, texts_of(old))]
            assert [NUMBER.sub("0", text).split() for text in texts_of(new)] == words
    assert (tmp_path / PAGES[name][0]).is_file()
