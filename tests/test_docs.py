"""The documents name what exists, and the code in them runs."""

import importlib
import re
from functools import partial
from pathlib import Path

import pytest
import soundfile

import asdf
from asdf.__main__ import module_name
from asdf.recipe import Corpus
from asdf.trials.trial_list import TrialList
from tests.unit.conftest import small_settings, sound, write_small_network

ROOT = Path(__file__).resolve().parents[1]
YOUR_OWN = (ROOT / "docs" / "your_own.md").read_text(encoding="utf-8")
DETECTOR = (ROOT / "docs" / "detector.md").read_text(encoding="utf-8")
FOLDERS = ("asdf", "benchmarks", "docs", "puhti_slurm_scripts", "recipes", "tests")
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("recipes/*/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
]
DOTTED_NAME = re.compile(r"`(asdf(?:\.\w+)+)")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./*-]+)")
COMMAND = re.compile(r"python -m asdf ([a-z][\w-]*)")
# What runs write, not what the repository holds.
WRITTEN = "/output/"


def named(pattern: re.Pattern[str], text: str) -> list[str]:
    return sorted(set(pattern.findall(text)))


def is_importable(name: str) -> bool:
    """Whether a dotted name leads to a module, or to what is in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = [name for name in named(DOTTED_NAME, text) if not is_importable(name)]
    for name in named(PATH, text):
        if WRITTEN not in name and not any(ROOT.glob(name)):
            missing.append(name)
    for name in named(COMMAND, text):
        if not (ROOT / module_name(name).replace(".", "/")).with_suffix(".py").exists():
            missing.append(f"python -m asdf {name}")
    assert missing == []


def code_below(heading: str) -> str:
    """The first block of Python below a heading of docs/your_own.md."""
    section = YOUR_OWN[YOUR_OWN.index(f"\n{heading}\n") :]
    return section.split("```python\n", 1)[1].split("```", 1)[0]


def test_the_corpora_of_the_documents_are_made(tmp_path: Path) -> None:
    entries = code_below("## A corpus")
    corpora = eval(f"{{{entries}}}", {"Corpus": Corpus})  # the file is our own
    assert list(corpora) == ["my-corpus", "my-itw", "my-shards", "my-kaldi"]
    (tmp_path / "my_corpus" / "lists").mkdir(parents=True)
    (tmp_path / "my_corpus" / "lists" / "train.txt").write_text("a.flac 1\nb.flac 0\n")
    utterances = corpora["my-corpus"].read("my-corpus", tmp_path)
    assert utterances.path(1) == tmp_path / "my_corpus" / "b.flac"
    assert corpora["my-itw"].reader == "in-the-wild"
    shards = corpora["my-shards"]
    assert (shards.reader, shards.columns) == ("parquet:test", {"label": "is_fake"})


def test_a_list_of_the_documents_is_made() -> None:
    (line,) = re.findall(r"^TrialList\(.*\)$", YOUR_OWN, re.MULTILINE)
    values = {"ids": ["a.flac", "b.flac"], "labels": [1, 0], "codecs": ["none", "opus"]}
    trials = eval(line, {"TrialList": TrialList, "Path": Path, **values})  # the file is our own
    assert trials.path(0) == Path("data/my_corpus/a.flac")
    assert trials.columns["codec"] == ["none", "opus"]


def test_the_program_of_the_page_on_the_detector_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All its blocks in their order, on short recordings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    settings = small_settings(
        network_class="small_networks.Plain",
        min_evaluation_utterance_length_in_samples=16000,
        max_evaluation_utterance_length_in_samples=64600,
    )
    write_small_network(tmp_path / "network.pt", settings)
    soundfile.write("call.mp3", sound(100_000), 16000)
    soundfile.write("hour.mp3", sound(150_000, 1), 16000)
    values = {"samples": sound(6 * 8000, 2)}
    start = DETECTOR.index("\n## In a program\n")
    section = DETECTOR[start : DETECTOR.index("\n## Formats\n")]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 4
    detector = asdf.Detector
    monkeypatch.setattr(asdf, "Detector", partial(detector, network_folder=ROOT / "tests"))
    for block in blocks:
        exec(block, values)  # the page is our own
    lines = capsys.readouterr().out.splitlines()
    # A whole recording, three windows, four recordings together, two windows before the end.
    assert len(lines) == 1 + 3 + 4 + 2
    assert values["stream"].score.seconds == 6.0
    assert values["detector"].warm_up() is values["detector"]
