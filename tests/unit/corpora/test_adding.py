"""A corpus is one entry in `asdf/corpora/sets` and its row in docs/corpora.md: what is missing?"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from asdf.corpora import KNOWN, KnownCorpus, choose
from asdf.corpora.sets import __path__ as folders
from asdf.errors import UsageError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "corpora.md").read_text(encoding="utf-8")
NAMES = PAGE.split("## Names\n")[1].split("\n## ")[0]
# Readers of any data set, which have pages of their own.
READERS = ("parquet", "kaldi", "folder", "hub", "webdataset", "shar", "lhotse", "datasets")


def first_cells(table: str) -> set[str]:
    """Return the names in the first column of a table of Markdown, those of subsets too."""
    names: set[str] = set()
    for line in table.splitlines():
        if line.startswith("| `"):
            names.update(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return names


def missing(corpus: KnownCorpus, tests: str) -> list[str]:
    """Return what a corpus lacks, in words for whoever adds one."""
    name = corpus.name
    problems = []
    if name not in first_cells(NAMES) and name not in READERS:
        problems.append(f"docs/corpora.md, 'Names': no row of `{name}`")
    if not corpus.homepage or not corpus.licence:
        problems.append("its homepage and its licence are not stated")
    if f'"{name}' not in tests and f"\n{name}" not in tests:
        problems.append(f"tests/unit/corpora: no test reads a small tree of '{name}'")
    if corpus.subsets and corpus.usual not in corpus.subsets:
        problems.append(f"usual={corpus.usual!r} is not one of its subsets")
    wrong = set(corpus.published) - {*corpus.subsets, ""}
    if wrong and not corpus.subset_of:
        problems.append(f"published numbers of {sorted(wrong)}, which are not subsets of it")
    if bool(corpus.published) != bool(corpus.source):
        problems.append("published numbers need a source, and a source numbers")
    for other in corpus.taken:
        problems += [str(error) for error in [mistake(other)] if error]
    return problems


def mistake(name: str) -> UsageError | None:
    """Return what is wrong with the name of a corpus or of a subset; None for nothing."""
    if name in KNOWN:
        return None
    try:
        choose(name)
    except UsageError as error:
        return error
    return None


@pytest.fixture(scope="module")
def tests() -> str:
    """All other tests of corpora, as text."""
    files = sorted(set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)})
    files += sorted((ROOT / "tests" / "extras" / "stores").glob("test_*.py"))
    reading = [file for file in files if file.name not in ("test_registry.py",)]
    return "\n".join(file.read_text(encoding="utf-8") for file in reading)


def test_no_corpus_lacks_anything(tests):
    problems = {name: missing(corpus, tests) for name, corpus in KNOWN.items()}
    assert {name: lacking for name, lacking in problems.items() if lacking} == {}


def test_the_document_names_no_corpus_that_is_unknown():
    for name in first_cells(NAMES):
        choose(name) if name not in KNOWN else None


def test_every_file_has_corpora_of_names_of_their_own():
    (folder,) = folders
    defined: list[str] = []
    for file in sorted(Path(folder).glob("[!_]*.py")):
        text = file.read_text(encoding="utf-8")
        assert "KnownCorpus(" in text, f"{file.name} has no corpus"
        defined += re.findall(r'^    name="([^"]+)",$', text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert set(defined) <= set(KNOWN)


def test_what_a_new_corpus_lacks_is_said(tests):
    changes = {"homepage": "", "subsets": ("train", "test"), "usual": "eval", "source": "its paper"}
    problems = missing(replace(KNOWN["sonar"], name="new-corpus", **changes), tests)
    assert [problem.split(":")[0] for problem in problems] == [
        "docs/corpora.md, 'Names'",
        "its homepage and its licence are not stated",
        "tests/unit/corpora",
        "usual='eval' is not one of its subsets",
        "published numbers need a source, and a source numbers",
    ]
