"""`asdf-antispoofing --completion`: what bash offers after it has read the script of shtab."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from asdf.__main__ import main
from tests.conftest import PATIENCE_S


def complete(script: str, words: list[str], folder: Path) -> list[str]:
    """Return COMPREPLY when the last of the words is being typed."""
    program = (
        f"{script}\n"
        f"COMP_WORDS=({shlex.join(['asdf-antispoofing', *words])})\n"
        f"COMP_CWORD={len(words)}\n"
        "_shtab_asdf_antispoofing\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    command = ["bash", "--norc", "-c", program]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return ended.stdout.split()


def test_bash_completes_commands_options_and_files(capsys, tmp_path):
    pytest.importorskip("shtab")
    assert main(["--completion", "bash"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "scores.txt").touch()
    assert complete(script, ["re"], tmp_path) == ["report"]
    assert complete(script, ["report", "--pl"], tmp_path) == ["--plots"]
    assert complete(script, ["evaluate", "sc"], tmp_path) == ["scores.txt"]


def test_without_the_package_a_sentence_names_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--completion", "zsh"]) == 1
    assert capsys.readouterr().err == (
        "error: --completion needs the package shtab: pip install shtab.\n"
    )
