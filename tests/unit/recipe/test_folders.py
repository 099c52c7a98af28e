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


def test_weights_are_relative_to_the_recipe_too(tmp_path):
    folders = folders_of(Paths("out", "data"), tmp_path)
    assert folders.weights("w/xlsr.pt") == str(tmp_path / "w" / "xlsr.pt")
    assert folders.weights("/w/xlsr.pt") == "/w/xlsr.pt" and folders.weights(None) is None
    assert folders.weights("torchaudio:WAV2VEC2_BASE") == "torchaudio:WAV2VEC2_BASE"


def test_a_name_of_the_hub_is_retained_where_nothing_here_has_it(tmp_path):
    (tmp_path / "here").mkdir()
    folders = folders_of(Paths(output_folder="out", database_folder="db"), tmp_path)
    for name in ("org/encoder", "hub:org/encoder@v1", "hub:here/encoder"):
        assert folders.weights(name) == name
    assert folders.weights("here/encoder") == str(tmp_path / "here" / "encoder")


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
