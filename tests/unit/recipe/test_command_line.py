"""The words of a recipe's command line."""

import runpy
import sys

import pytest

from asdf.errors import UsageError
from asdf.recipe.command_line import CommandLine, parse_command_line
from tests.conftest import RECIPE


def parse(*words: str) -> CommandLine:
    return parse_command_line(list(words), "about")


def test_configs_and_overrides_in_any_order():
    command = parse("a", "network.max_epochs=2", "b-2", "recipe.seed = 1")
    assert command == CommandLine(
        ["a", "b-2"], ["network.max_epochs=2", "recipe.seed = 1"], False, None, False
    )


def test_the_three_questions():
    assert parse("--list").show_list
    assert parse("a", "--dry-run", "network.max_epochs=2") == CommandLine(
        ["a"], ["network.max_epochs=2"], False, None, True
    )
    assert parse("a", "--explain").explain == "" and parse("a").explain is None
    assert parse("a", "--explain", "network.max_epochs").explain == "network.max_epochs"
    assert parse("--explain", "network", "a").explain == "network"
    assert parse("--explain", "a") == CommandLine(["a"], [], False, "", False)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("paths.output_folder=out", "paths.output_folder='{here}/out'"),
        ("paths.output_folder='my out'", "paths.output_folder='{here}/my out'"),
        ("paths.database_folder = ../x", "paths.database_folder='{here}/../x'"),
        ("front_end.weights=w.pt", "front_end.weights='{here}/w.pt'"),
        ("paths.output_folder=C:\\out", "paths.output_folder=C:\\out"),  # refused later
        ("paths.output_folder=/abs", "paths.output_folder=/abs"),
        ("paths.output_folder='$SCRATCH/x'", "paths.output_folder='$SCRATCH/x'"),
        ("paths.output_folder=~/x", "paths.output_folder=~/x"),
        (
            "front_end.weights=torchaudio:WAV2VEC2_BASE",
            "front_end.weights=torchaudio:WAV2VEC2_BASE",
        ),
        ("front_end.weights=None", "front_end.weights=None"),
        ("front_end.weights=org/encoder", "front_end.weights=org/encoder"),
        ("front_end.weights='hub:org/encoder@v1'", "front_end.weights='hub:org/encoder@v1'"),
        ("paths.system_folder=sys", "paths.system_folder=sys"),  # relative to output_folder
    ],
)
def test_a_typed_path_means_the_folder_it_is_typed_in(monkeypatch, tmp_path, typed, meant):
    monkeypatch.chdir(tmp_path)
    assert parse("a", typed).overrides == [meant.format(here=tmp_path)]


def test_help_is_80_columns_wide(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["run.py", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(RECIPE / "run.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "usage: run.py CONFIG [CONFIG ...] [section.name=value ...]"
    assert lines[1] == "              [--list] [--explain [section.name]] [--dry-run]"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "no config is given. Use: run.py CONFIG"),
        ("network.max_epochs=2", "run.py --list shows the configs"),
        ("--dry-run", "no config is given"),
        ("net --verbose-please", "there is no option '--verbose-please'; settings are"),
        ("net --dryrun", "there is no option '--dryrun'; the nearest is '--dry-run'"),
        ("net –dry-run", "there is no option '–dry-run'; the nearest is '--dry-run'"),
        ("net network.max_epochs = 2", "'network.max_epochs =': write section.name=value without"),
        ("net network.max_epochs =2", "'network.max_epochs =2': write section.name=value without"),
        ("net network.max_epochs 2", "'network.max_epochs': write section.name=value without"),
        ("net paths.output_folder=", "'paths.output_folder=': write section.name=value without"),
        ("net --compute_setup=auto", "computing.processes=2, or torchrun --nproc_per_node=2"),
        ("net --dist-backend", "write computing.backend='nccl'"),
        ("net --push_to_hub", "write python -m asdf export NETWORK --push ORG/NAME"),
        ("net --network.max_steps=3", "without dashes; the nearest is 'network.max_steps'"),
        (
            "net --fp16 --gradient-checkpointing --per-device-train-batch-size 16",
            "3 mistakes in the settings:\n"
            "  command line: '--fp16' is a word of other frameworks; write "
            "computing.precision='bf16' or 'fp16'\n"
            "  command line: there is no option '--gradient-checkpointing'; settings are without "
            "dashes; the nearest is 'front_end.gradient_checkpointing'\n"
            "  command line: '--per-device-train-batch-size' is a word of other frameworks; write "
            "network.minibatch_size=16",
        ),
    ],
)
def test_what_cannot_be_read_is_answered_all_at_once(words, told):
    with pytest.raises(UsageError) as error:
        parse(*words.split())
    assert told in str(error.value)
