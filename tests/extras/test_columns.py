"""A column of a score goes with its file and its line: no other file names it."""

import ast
import re

import pytest

from asdf.extras import COLUMNS
from asdf.scoring.columns import COLUMNS as OF_CORE
from asdf.scoring.columns import find_columns
from tests.conftest import ROOT
from tests.sources import nodes


@pytest.mark.parametrize("key", COLUMNS)
def test_no_other_file_imports_a_column(key: str) -> None:
    module = COLUMNS[key].rpartition(".")[0]
    importers = []
    for folder in ("asdf", "benchmarks", "recipes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "configs" in path.parts:
                continue
            for node in nodes(path):
                if isinstance(node, ast.ImportFrom) and node.module == module:
                    importers.append(path.name)
    assert importers == []


@pytest.mark.parametrize("key", COLUMNS.keys() - OF_CORE.keys())
def test_no_page_names_a_column_of_an_extra(key: str) -> None:
    names = {key, *find_columns()[key].attributes}
    for path in sorted((ROOT / "asdf/extras/service").rglob("*")):
        if path.suffix in (".js", ".html"):
            assert not names & set(re.findall(r"\w+", path.read_text())), path.name
