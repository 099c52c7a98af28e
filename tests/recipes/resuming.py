"""A run that is killed and started again, next to one that is not."""

from tests.conftest import RecipeFolder
from tests.distributed.test_exactness import assert_equal_runs


def assert_resumes_exactly(
    recipe: RecipeFolder, *words: str, processes: int = 1, **kill: str
) -> None:
    """Compare the runs `whole` and `killed` of a config; `kill` makes the second one end early."""
    recipe.run(*words, "paths.system_folder=whole", processes=processes).ok()
    killed = (*words, "paths.system_folder=killed")
    assert recipe.run(*killed, processes=processes, **kill).status != 0
    resumed = recipe.run(*killed, processes=processes).ok()
    assert "going on from" in resumed.output, resumed.output
    assert_equal_runs(recipe.system("whole"), recipe.system("killed"))
