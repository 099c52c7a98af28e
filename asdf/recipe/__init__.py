"""Building blocks of recipes: the command line, the corpora, and the runs.

No module here imports torch before a run starts, so that --list, --explain and --dry-run answer at
once.
"""

from asdf.recipe.declared_corpora import Corpus
from asdf.recipe.opened_recipe import Recipe, open_recipe
from asdf.recipe.run import Run

__all__ = ["Corpus", "Recipe", "Run", "open_recipe"]
