"""The folders that the paths of a config mean."""

from pathlib import Path

import pytest

from asdf.errors import UsageError
from asdf.recipe.run_folders import folders_of
from asdf.settings.sections import Paths


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
    with pytest.raises(
        UsageError, match=rf"paths\.{name}_folder is not set.*paths\.{name}_folder=/your/folder"
    ):
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
