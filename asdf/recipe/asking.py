"""What a recipe's run.py declares, for commands that have its path alone.

Invariant: run.py runs as far as it opens its recipe, which is before it does anything; so the
corpora are those that its runs will have, however they are declared.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import Corpus


class _Answer(BaseException):
    """Ends a run.py that is asked: no `except Exception` of a recipe catches it."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        super().__init__()
        self.corpora = corpora


class _Question:
    """Whether a run.py is being asked."""

    is_open = False


def answer_with(corpora: Mapping[str, Corpus]) -> None:
    """End the run.py if it is run to learn its corpora; otherwise do nothing."""
    if _Question.is_open:
        raise _Answer(corpora)


def corpora_of(run_file: Path) -> Mapping[str, Corpus]:
    """Return the corpora that a run.py declares.

    Raises:
        UsageError: it opens no recipe.
        AsdfError: it fails before it does.
    """
    path = sys.path[:]
    arguments = sys.argv
    sys.path.insert(0, str(run_file.parent))
    sys.argv = [str(run_file)]
    _Question.is_open = True
    try:
        runpy.run_path(str(run_file), run_name="__main__")
    except _Answer as answer:
        return answer.corpora
    except (Exception, SystemExit) as error:
        raise AsdfError(
            f"{run_file} cannot be asked for its corpora: {type(error).__name__}: {error}. Does "
            f"'python {run_file} --list' work?"
        ) from error
    finally:
        _Question.is_open = False
        sys.argv = arguments
        sys.path[:] = path
    raise UsageError(f"{run_file} opens no recipe (asdf.recipe.open_recipe): is it a run.py?")
