"""Command lines of recipes, and the corpora and files of configs that a run.py declares.

Invariant: to read its corpora, run.py is executed until it opens its recipe, before it does any
work. The corpora are thus those of its runs, however they are declared.
"""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.hub import parse_name
from asdf.recipe.declared_corpora import Corpus
from asdf.removed import ours_for
from asdf.runs.log import LOG
from asdf.settings.catalogue import our_catalogue
from asdf.settings.class_path import describe_error
from asdf.settings.front_end_values import BUNDLE, RANDOM
from asdf.settings.mistakes import COMMAND_LINE, Collector, raise_all, shortened
from asdf.settings.value_checks import OF_WINDOWS
from asdf.text import closest


class _Answer(BaseException):
    """Ends a run.py that is executed to read its corpora; `except Exception` does not catch it."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        super().__init__()
        self.corpora = corpora


class _Question:
    """Whether a run.py is executed only to read its corpora."""

    is_open = False


def answer_with(corpora: Mapping[str, Corpus]) -> None:
    """End the run.py if it is executed only to read its corpora; otherwise do nothing."""
    if _Question.is_open:
        raise _Answer(corpora)


def corpora_of(run_file: Path) -> Mapping[str, Corpus]:
    """Return the corpora that a run.py declares.

    Raises:
        UsageError: run.py opens no recipe.
        AsdfError: run.py fails before it opens its recipe.
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
            f"the corpora that {run_file} declares cannot be read: {describe_error(error)}. Check "
            f"that 'python {run_file} --list' works."
        ) from error
    finally:
        _Question.is_open = False
        sys.argv = arguments
        sys.path[:] = path
    raise UsageError(
        f"{run_file} does not call asdf.recipe.open_recipe, so it is not the run.py of a recipe. "
        "Check the path."
    )


def config_folders(run_file: Path) -> Sequence[str]:
    """Return the folders of further configs that a run.py names; it is parsed, not executed."""
    # What is wrong with a run.py is said where it is executed.
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(run_file.read_bytes(), str(run_file))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("open_recipe"):
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                try:
                    return ast.literal_eval(named["configs"]) if "configs" in named else ()
                except ValueError:
                    LOG.warning("%s: launch reads open_recipe's configs only as literals", run_file)
    return ()


def config_files(recipe: Path, folders: Sequence[str]) -> list[Path]:
    """Return the files of a recipe's configs: its run_configs.py, and those of the folders.

    A folder that is missing has none: a recipe may be copied without it. Nor does the recipe's own,
    which may be called like one of them.
    """
    files = [recipe / "configs" / "run_configs.py"]
    for folder in [folders] if isinstance(folders, str) else folders:
        # A name with a dot is not a config file, but the lock or the backup of an editor.
        found = sorted((recipe / folder / "configs").resolve().glob("[!.]*.py"))
        files += [path for path in found if path.name != "init_config.py" and path not in files]
    return files


# A relative path on the command line is relative to the current folder, one in a config to the
# recipe's folder.
_WEIGHTS = "front_end.weights"
_TYPED_PATHS = ("paths.output_folder", "paths.database_folder", _WEIGHTS)
# Word processors turn hyphens into the others.
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")


@dataclass(frozen=True)
class CommandLine:
    """The parsed command line.

    Attributes:
        explain: Setting or section to explain, '' for all; None without --explain.
    """

    configs: list[str]
    overrides: list[str]
    show_list: bool
    explain: str | None
    dry_run: bool


def parse_command_line(arguments: list[str], description: str) -> CommandLine:
    """Read the arguments of `run.py CONFIG [CONFIG ...] [section.name=value ...]`.

    Raises:
        UsageError: no config is given, or there is no such option.
    """
    parser = argparse.ArgumentParser(
        prog="run.py",
        usage="run.py CONFIG [CONFIG ...] [section.name=value ...]\n"
        "              [--list] [--explain [section.name]] [--dry-run]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG",
        help="configs to run, one after another, and settings to change",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the configs, or those of a folder; with CONFIG, its full description",
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="section.name",
        help="show the values of settings and where they were set",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show and check what would be done, without doing it"
    )
    # Added by `python -m torch.distributed.launch`, which sets LOCAL_RANK as well.
    parser.add_argument("--local-rank", "--local_rank", type=int, help=argparse.SUPPRESS)
    args, unknown = parser.parse_known_intermixed_args(arguments)
    collector = Collector()
    for word in (*unknown, *args.words):
        option = word.partition("=")[0].translate(_DASHES)
        # Others of the unknown are values of such options.
        if not option.startswith("-"):
            continue
        near = closest(option, ("--list", "--explain", "--dry-run"))
        if near and not ours_for(option):
            problem = f"there is no option '{shortened(word)}'; the nearest is '{near}'"
            collector.add(COMMAND_LINE, problem)
        else:
            with collector.collecting(COMMAND_LINE):
                our_catalogue().look_up(option)
    torn = [word for word in args.words if _is_torn(word)]
    if torn:
        problem = "write section.name=value without spaces; is a variable of the shell empty?"
        collector.add(COMMAND_LINE, f"'{shortened(' '.join(torn))}': {problem}")
    raise_all(collector.mistakes)
    # The name of a config contains no equals sign, and an override always contains one.
    configs = [word for word in args.words if "=" not in word]
    overrides = [from_current_folder(word) for word in args.words if "=" in word]
    explain = args.explain
    if explain and "." not in explain and not configs:
        # `--explain CONFIG` is accepted as well as `CONFIG --explain`.
        configs = [explain]
        explain = ""
    if not configs and not args.list:
        raise UsageError(
            "no config is given. Use: run.py CONFIG [section.name=value ...]; run.py --list shows "
            "the configs."
        )
    return CommandLine(configs, overrides, args.list, explain, args.dry_run)


def _is_torn(word: str) -> bool:
    """Whether a word is an override without a name or a value."""
    name, equals, value = map(str.strip, word.partition("="))
    return not (name and value) if equals else name in our_catalogue().settings


def from_current_folder(override: str) -> str:
    """Make a relative path absolute, based on the current folder instead of the recipe's."""
    name, _, value = override.partition("=")
    path = value.strip().strip("'\"")
    # Variables and home folders are expanded later, to paths that do not depend on this folder.
    is_relative = path not in ("", "None") and not path.startswith(("/", "$", "~", BUNDLE))
    is_relative = is_relative and not OF_WINDOWS.match(path)
    is_name = path == RANDOM or parse_name(path) is not None
    if name.strip() == _WEIGHTS and is_relative and is_name:
        return override
    if name.strip() in _TYPED_PATHS and is_relative:
        return f"{name.strip()}={str(Path.cwd() / path)!r}"
    return override
