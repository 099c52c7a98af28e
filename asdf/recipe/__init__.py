"""What recipes are written with: the command line, the corpora, and one run after another.

Nothing here imports torch before a run starts, so that --list, --explain and --dry-run answer at
once.
"""

from asdf.recipe.corpus import Corpus
from asdf.recipe.opened_recipe import Recipe, open_recipe
from asdf.recipe.run import Run

__all__ = ["Corpus", "Recipe", "Run", "open_recipe"]
