"""The configs of other folders that a run.py names: one namespace, in one order."""

import re
import shutil
from dataclasses import replace

import pytest

from asdf.__main__ import main
from asdf.recipe.command_line import config_files, config_folders
from tests.conftest import CONFIG_FILES, RECIPE, ROOT

SLOW = "# Slower than debug.\nslow < debug\npaths.system_folder = 'slow'\nnetwork.max_epochs = 9\n"
SEEDED = "seeded < slow\npaths.system_folder = 'seeded'\nrecipe.seed = 5\n"


@pytest.fixture
def folders(recipe):
    """The folders `../papers` and `../demo` of a recipe, each with a file of configs."""
    for name, file, text in (("papers", "slow.py", SLOW), ("demo", "seeded.py", SEEDED)):
        configs = recipe.folder.parent / name / "configs"
        configs.mkdir(parents=True)
        (configs / file).write_text(text)
    return recipe.folder.parent


def test_the_recipes_own_list_fits_on_a_screen(recipe, capsys):
    ours = replace(recipe, folder=RECIPE)
    lists = ((), ("papers",), ("demo",))
    shown = {words: ours.call(capsys, "--list", *words).ok().output.splitlines() for words in lists}
    # The first line of a config has its parent, or two blanks before the description.
    own, papers, demo = (
        sum(re.match(r" *[\w-]+(?: < |  )", line) is not None for line in lines)
        for lines in shown.values()
    )
    assert len(shown[()]) <= 24 and 8 <= own <= 10
    assert shown[()][-2:] == [
        f"{papers} configs in papers: --list papers",
        f"{demo} configs in demo: --list demo",
    ]
    assert own + papers + demo == 44


def test_configs_inherit_across_files_and_run_in_the_same_folders(recipe, folders, capsys):
    outcome = recipe.call(capsys, "seeded", "network.max_epochs=1", "recipe.end_stage=1").ok()
    assert "config seeded" in outcome.output
    settings = (recipe.system("seeded") / "settings.py").read_text()
    for said in ("recipe.seed = 5  # seeded.py:3 (seeded)", "over 9 (slow.py:4 (slow)), 3 (run_"):
        assert said in settings
    code = recipe.system("seeded") / "code" / "configs"
    assert (code / "demo" / "seeded.py").read_text() == SEEDED
    assert (code / "papers" / "slow.py").read_text() == SLOW


def test_each_place_is_named(recipe, folders, capsys):
    explained = recipe.call(capsys, "seeded", "--explain", "network.max_epochs").ok().output
    assert f"{folders}/papers/configs/slow.py:4 (slow)" in explained
    assert f"{recipe.folder}/configs/run_configs.py:" in explained
    listed = recipe.call(capsys, "--list").ok().output.splitlines()
    assert listed[-2:] == ["1 config in papers: --list papers", "1 config in demo: --list demo"]
    listed = recipe.call(capsys, "--list", "papers").ok().output
    assert listed == "slow < debug  Slower than debug\n"
    described = recipe.call(capsys, "--list", "seeded", "demo").ok().output
    assert described == "seeded < slow\nseeded < slow\n"


@pytest.mark.parametrize(
    ("words", "added", "said"),
    [
        (("slwo",), "", r"no config 'slwo' in .*/run_configs\.py and 2 further files; .*'slow'"),
        (("--list", "paper"), "", r"no config 'paper' in .*2 further files\. Did.*'papers'\?"),
        (("debug",), "debug\n", r"seeded\.py:5: config 'debug' is defined twice; the first is in "),
        (("debug",), "slow\n", r"is defined twice; the first is in /.*/papers/configs/slow\.py:2"),
        (("debug",), "seeded\n", r"seeded\.py:5: .* is defined twice; the first is on line 1"),
        (("debug",), "x < none\n", r"demo/configs/seeded\.py:5: 'x' inherits from 'none'"),
        (("x",), "x < slow\nrecipe.sed = 1\n", r"/seeded\.py:6.*recipe\.sed"),
    ],
)
def test_mistakes_name_their_file_and_line(recipe, folders, capsys, words, added, said):
    path = folders / "demo" / "configs" / "seeded.py"
    path.write_text(f"{SEEDED}\n{added}")
    outcome = recipe.call(capsys, *words)
    assert outcome.status == 2 and re.search(said, outcome.output), outcome.output


def test_a_recipe_alone_has_its_own_configs(recipe, tmp_path, capsys, caplog):
    """As one that is copied without the folders next to it, or never named any."""
    text = (recipe.folder / "run.py").read_text()
    assert config_folders(recipe.folder / "run.py") == ("../papers", "../demo")
    for configs in ('configs=("../papers", "../demo")', 'configs="../none"', 'next_config=""'):
        own = text.replace('"train-ssl-aasist", configs=("../papers", "../demo")', configs)
        (recipe.folder / "run.py").write_text(own)
        assert "  normed < debug\n" in f"{recipe.call(capsys, '--list').ok().output}\n"
        recipe.call(capsys, "debug", "--explain").ok()
    assert config_folders(recipe.folder / "run.py") == ()
    assert config_folders(tmp_path / "none.py") == () and not caplog.messages
    (tmp_path / "run.py").write_text("open_recipe(__file__, {}, configs=FOLDERS)\n")
    assert config_folders(tmp_path / "run.py") == ()
    assert "run.py: launch reads open_recipe's configs only as literals" in caplog.text
    folder = tmp_path / "alone"
    shutil.copytree(RECIPE, folder, ignore=shutil.ignore_patterns("output"))
    files = config_files(folder, config_folders(folder / "run.py"))
    assert files == [folder / "configs" / "run_configs.py"]
    replace(recipe, folder=folder).call(capsys, "train-ssl-aasist", "--explain").ok()


def test_a_copy_may_be_called_like_a_folder_and_an_editor_may_lock_a_file(tmp_path):
    folder = tmp_path / "papers"
    shutil.copytree(RECIPE / "configs", folder / "configs")
    (tmp_path / "demo" / "configs").mkdir(parents=True)
    (tmp_path / "demo" / "configs" / ".#mini.py").symlink_to("user@host.1")
    files = config_files(folder, ("../papers", "../demo"))
    assert files == [folder / "configs" / "run_configs.py"]


def test_another_recipe_may_be_named(tmp_path):
    for file in CONFIG_FILES[:2]:
        target = tmp_path / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    configs = tmp_path / CONFIG_FILES[0].relative_to(ROOT).parent
    (configs / "init_config.py").write_text("paths.output_folder = 'output'\n")
    found = config_files(tmp_path / "mine", ["../recipes/wav2vec_aasist"])
    assert found == [tmp_path / "mine/configs/run_configs.py", configs / "run_configs.py"]


def test_a_launch_knows_them(recipe, folders, capsys):
    words = ["launch", str(recipe.folder / "run.py"), "seeded", "slow", "--seeds", "0-1"]
    assert main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    for name in ("seeded-seed0", "seeded-seed1", "slow-seed0", "slow-seed1"):
        assert name in shown


def test_the_mistakes_of_all_files_are_in_one_message(recipe, folders, capsys):
    recipe.add_configs("one\nrecipe.seed = (\n")
    for name, path in (("two", "papers/configs/slow.py"), ("three", "demo/configs/seeded.py")):
        text = (folders / path).read_text()
        (folders / path).write_text(f"{text}\n{name}\nrecipe.seed = (\n")
    outcome = recipe.call(capsys, "debug")
    assert outcome.status == 2
    for file in ("run_configs.py", "slow.py", "seeded.py"):
        assert re.search(rf"{file}:\d+", outcome.output), outcome.output
