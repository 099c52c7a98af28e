"""The recipes that come with ASDF, and copies of them."""

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.command_line import config_files, config_folders
from asdf.recipe.supplied import copy_recipe, recipes_folder
from tests.conftest import CONFIG_FILES, ROOT


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
