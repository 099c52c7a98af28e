"""The page for a first paper leads from a wheel to a table: its own commands and config."""

import shutil

import pytest

from tests.conftest import ROOT
from tests.documents.blocks import blocks_of, commands_of

PAGE = (ROOT / "docs" / "student.md").read_text(encoding="utf-8")
QUICK = "network.max_epochs=1 computing.threads=1"


@pytest.mark.slow
def test_the_commands_end_in_a_table(installed, tmp_path, corpus):
    work = tmp_path / "desk"
    # Of every utterance a speaker and a number, as the names on the page.
    for label, kind in (("1", "real"), ("0", "fake")):
        folder = work / "DATA" / kind
        folder.mkdir(parents=True)
        lines = [line for path in corpus.glob("*_list.txt") for line in path.open()]
        paths = sorted(line.split()[0] for line in lines if line.split()[1] == label)
        for number, path in enumerate(paths):
            shutil.copy(corpus / path, folder / f"s{number % 5}_{number:03}.flac")
    blocks = blocks_of(PAGE)
    (config,) = [block.text for block in blocks if block.text.startswith("mine < mini-wav2vec")]
    commands = [c for block in blocks if block.kind == "shell" for c in commands_of(block)]
    assert len(commands) == 8
    outputs = []
    for command in commands:
        words = command.replace("asdf-antispoofing ", f"{installed.program} ")
        words = words.replace("python ", f"{installed.python} ")
        if " paths.database_folder=DATA" in words:
            words = words.replace("=DATA", f"=DATA {QUICK}")
        ended = installed.run("bash", "-c", words, folder=work)
        assert ended.returncode == 0, (command, ended.stdout + ended.stderr)
        outputs.append(ended.stdout)
        if " new-recipe " in command:
            with (work / "paper" / "configs" / "run_configs.py").open("a") as file:
                file.write(f"\n{config}")
    explained, compared, evaluated = outputs[4], outputs[6], outputs[7]
    assert "(mine)" in explained and "'focal'" in explained
    assert "network.loss" in compared
    assert "EER" in evaluated
    table = (work / "study.tex").read_text()
    assert "mini-wav2vec" in table and "mine" in table and r"\pm" in table
    assert (work / "study.html").stat().st_size > 10_000
