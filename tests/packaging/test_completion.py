"""`asdf-antispoofing --completion`: what a shell offers after it has read the script."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from asdf.__main__ import COMMANDS, main, module_name
from asdf.commands.completion import read_options
from tests.conftest import PATIENCE_S, RECIPE


def print_script(shell: str, capsys) -> str:
    assert main(["--completion", shell]) == 0
    return capsys.readouterr().out


def complete(script: str, words: list[str], folder: Path) -> list[str]:
    """Return COMPREPLY when the last of the words is being typed."""
    typed = shlex.join(["asdf-antispoofing", *words])
    program = (
        f"{script}\n"
        "complete -p asdf-antispoofing > /dev/null || exit 3\n"
        f"COMP_WORDS=({typed})\n"
        f"COMP_CWORD={len(words)}\n"
        "_asdf_antispoofing\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_bash_completes_commands_options_files_and_configs(capsys, tmp_path):
    script = print_script("bash", capsys)
    (tmp_path / "scores.txt").touch()
    first = complete(script, [""], tmp_path)
    assert first == [*COMMANDS, "--help", "--version", "--completion"]
    assert complete(script, ["re"], tmp_path) == ["report"]
    assert complete(script, ["report", "--pl"], tmp_path) == ["--plots"]
    assert complete(script, ["--completion", "z"], tmp_path) == ["zsh"]
    assert complete(script, ["evaluate", "sc"], tmp_path) == ["scores.txt"]
    for words in (["launch", RECIPE / "run.py"], ["train", RECIPE / "run.py"], ["train", RECIPE]):
        configs = complete(script, [*map(str, words), "mini-"], tmp_path)
        assert configs == ["mini-wav2vec", "mini-aasist", "mini-vocoded", "mini-best"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_states_its_options(name):
    options = read_options(module_name(name))
    assert options[0] == "--help"
    assert len(set(options)) == len(options)


def test_options_are_those_of_the_help():
    options = read_options("asdf.launcher.commands.launch")
    points = {"--folds", "--seeds", "--sweep", "--random", "--random-seed"}
    where = {"--gpus", "--slots", "--processes-per-run", "--slurm", "--max-running"}
    search = {"--search", "--trials", "--storage", "--objective", "--pruner"}
    shown = {"--help", "--dry-run", "--report", "--latex"}
    assert set(options) == shown | points | search | where


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_scripts(shell, capsys, tmp_path):
    script = tmp_path / "script"
    script.write_text(print_script(shell, capsys))
    assert "new-recipe" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: its script is printed, not read")
    ended = subprocess.run([shell, str(script)], capture_output=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, b"")
