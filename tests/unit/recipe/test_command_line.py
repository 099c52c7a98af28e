"""The words of a recipe's command line, its folders, and the recipes that come with ASDF."""

import runpy
import sys
from pathlib import Path

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.command_line import CommandLine, config_files, config_folders, parse_command_line
from asdf.recipe.run_folders import folders_of
from asdf.recipe.supplied import copy_recipe, recipes_folder
from asdf.settings.sections import Paths
from tests.conftest import CONFIG_FILES, RECIPE, ROOT


def parse(*words: str) -> CommandLine:
    return parse_command_line(list(words), "about")


def test_configs_and_overrides_in_any_order():
    command = parse("a", "network.max_epochs=2", "b-2", "recipe.seed = 1")
    overrides = ["network.max_epochs=2", "recipe.seed = 1"]
    assert command == CommandLine(["a", "b-2"], overrides, False, None, False)


def test_the_three_questions():
    assert parse("--list").show_list
    overrides = ["network.max_epochs=2"]
    assert parse("a", "--dry-run", *overrides) == CommandLine(["a"], overrides, False, None, True)
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
        *((f"paths.output_folder={path}",) * 2 for path in ("/abs", "'$SCRATCH/x'", "~/x")),
        *((f"front_end.weights={name}",) * 2 for name in ("None", "org/encoder")),
        *((f"front_end.weights={name}",) * 2 for name in ("torchaudio:BASE", "'hub:org/e@v1'")),
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
        ("net --lr=1e-5", "'--lr' is a word of other frameworks; write network.initial"),
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


def test_folders_are_relative_to_the_recipe_and_each_other(tmp_path):
    folders = folders_of(Paths("../out", "/data", "a/b", "sad"), tmp_path / "recipe")
    assert folders.output == tmp_path / "out" and folders.database == Path("/data")
    assert folders.networks == tmp_path / "out" / "a" / "b" / "networks"
    assert folders.sad == tmp_path / "out" / "sad"


def test_weights_are_a_path_here_or_the_name_of_what_is_elsewhere(tmp_path):
    (tmp_path / "here").mkdir()
    folders = folders_of(Paths("out", "data"), tmp_path)
    for path in ("w/xlsr.pt", "here/encoder"):
        assert folders.weights(path) == str(tmp_path / path)
    kept = ("/w/xlsr.pt", None, "torchaudio:WAV2VEC2_BASE", "org/encoder", "hub:org/encoder@v1")
    for name in (*kept, "hub:here/encoder"):
        assert folders.weights(name) == name


@pytest.mark.parametrize(
    ("paths", "name"), [(Paths(None, "x"), "output"), (Paths("x", None), "database")]
)
def test_a_folder_that_is_not_set(tmp_path, paths, name):
    setting = rf"paths\.{name}_folder"
    with pytest.raises(UsageError, match=f"{setting} is not set.*{setting}=/your/folder"):
        folders_of(paths, tmp_path)


@pytest.mark.parametrize("name", ["system_folder", "sad_folder"])
def test_a_folder_below_the_output_folder_stays_there(tmp_path, name):
    for inside in ("a/b", "a/../b", "."):
        folders_of(Paths("out", "data", **{name: inside}), tmp_path)
    for outside in ("..", "../../..", "a/../../b"):
        with pytest.raises(UsageError) as caught:
            folders_of(Paths("out", "data", **{name: outside}), tmp_path)
        assert str(caught.value) == (
            f"paths.{name} = '{outside}' is outside paths.output_folder ({tmp_path / 'out'}). "
            "Write it without '..', or as an absolute path if that is intended."
        )
    absolute = folders_of(Paths("out", "data", **{name: "/scratch/x"}), tmp_path)
    assert Path("/scratch/x") in (absolute.system, absolute.sad)


def test_a_checkouts_recipes_are_used_as_they_are():
    assert recipes_folder() == ROOT / "recipes"


def test_a_copy_is_whole_and_nothing_is_replaced(tmp_path):
    folder = tmp_path / "new" / "recipe"
    copy_recipe(folder)
    source = ROOT / "recipes" / "wav2vec_aasist"
    for name in ("README.md", ".gitignore", "configs/init_config.py", "configs/run_configs.py"):
        assert (folder / name).read_bytes() == (source / name).read_bytes()
    # The configs next to the recipe are inside of its copy, where run.py names them.
    for name in ("papers/README.md", "papers/configs/sls.py", "demo/configs/mini.py"):
        assert (folder / name).read_bytes() == (source.parent / name).read_bytes()
    run = (source / "run.py").read_text()
    assert '("../papers", "../demo")' in run
    assert (folder / "run.py").read_text() == run.replace('"../', '"')
    assert config_folders(folder / "run.py") == ("papers", "demo")
    copies = [path.relative_to(folder) for path in config_files(folder, ("papers", "demo"))]
    assert [path.name for path in copies] == [path.name for path in CONFIG_FILES]
    assert not list(folder.rglob("__pycache__"))
    assert [path.name for path in folder.parent.iterdir()] == ["recipe"]
    (folder / "run.py").write_text("mine")
    with pytest.raises(UsageError, match="already exists: name a new folder"):
        copy_recipe(folder)
    assert (folder / "run.py").read_text() == "mine"


def test_an_empty_folder_may_exist(tmp_path):
    copy_recipe(tmp_path / "")
    assert (tmp_path / "run.py").is_file()


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AsdfError, match=r"cannot copy a recipe to .*Nothing was left there"):
        copy_recipe(tmp_path / "file" / "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
