"""A run that many tests go on from, computed once."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import RecipeFolder, make_recipe


@pytest.fixture(scope="session")
def trained_output(corpus, warm, tmp_path_factory) -> Path:
    """The output of a run of one epoch, which no test may change."""
    recipe = make_recipe(tmp_path_factory.mktemp("trained") / "recipe", corpus, warm)
    assert recipe.run_here("debug", "network.max_epochs=1") == 0
    return recipe.output


@pytest.fixture
def trained(recipe, trained_output) -> RecipeFolder:
    """A recipe folder after the run `debug network.max_epochs=1`."""
    shutil.copytree(trained_output, recipe.output)
    return recipe
