"""Classes named in a setting: ours, or one in a file beside the recipe.

Invariant: a class is looked at, and known to be of the kind that is wanted, before anything of it runs. A dry run looks
at the text of its file alone, and does not take for wrong what only running it would tell.
"""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.text import did_you_mean

Kind = TypeVar("Kind")


def find_class(class_path: str, folder: Path | None, setting: str, base: type[Kind]) -> type[Kind]:
    """The class that `class_path`, such as 'my_network.MyNetwork', names.

    Args:
        folder: the recipe's folder, where a user's own modules lie; it is searched first.
        setting: the setting's name, for messages.
        base: what the class must be derived from.

    Raises:
        UsageError: no such module or class, or not derived from `base`.
        AsdfError: the module fails when it is imported.
    """
    module_name, class_name = _parts(class_path, setting)
    module = _import(module_name, folder, setting)
    found = getattr(module, class_name, None)
    if found is None:
        classes = [name for name in dir(module) if _is_a(base, getattr(module, name, None))]
        raise _no_class(f"{setting}: module {module_name} ({_place(module)})", class_name, classes)
    if not _is_a(base, found):
        raise UsageError(
            f"{setting}: {class_path} ({_place(module)}) does not fit: a class derived from "
            f"{base.__module__}.{base.__qualname__} is needed, and this is {found!r}."
        )
    return found


def look_for_class(class_path: str, folder: Path, setting: str) -> None:
    """Make sure of what can be known of a class without running anything, not even torch: whether it is there.

    Raises:
        UsageError: no such file beside the recipe, or no such class in it, or among the project's networks.
        AsdfError: the file is not Python.
    """
    module_name, class_name = _parts(class_path, setting)
    file = folder / f"{module_name.replace('.', '/')}.py"
    if file.is_file():
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError) as error:
            raise AsdfError(f"{setting}: {file} is not Python: {describe_error(error)}.") from None
        names = _names_in(tree)
        if class_name not in names and "*" not in names:
            classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            raise _no_class(f"{setting}: module {module_name} ({file})", class_name, classes)
    elif module_name == "asdf.networks":
        ours = import_module(module_name).__all__
        if class_name not in ours:
            raise _no_class(
                f"{setting}: module {module_name}",
                class_name,
                [name for name in ours if name[0].isupper()],
            )
    else:
        top = module_name.partition(".")[0]
        if not (top in sys.modules or (folder / top).is_dir() or find_spec(top)):
            raise _no_module(top, top, folder, setting)


def _parts(class_path: str, setting: str) -> tuple[str, str]:
    module_name, _, class_name = class_path.rpartition(".")
    if not module_name:
        raise UsageError(
            f"{setting}: {class_path!r} names no module. Write 'module.Class': 'my_module.MyClass'."
        )
    return module_name, class_name


def _names_in(tree: ast.Module) -> set[str]:
    """All names that the file may give itself, '*' among them where it imports some that are not written out."""
    names = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    names |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {
        node.asname or node.name for node in ast.walk(tree) if isinstance(node, ast.alias)
    }


def _no_class(where: str, class_name: str, classes: list[str]) -> UsageError:
    present = f" What fits there is {', '.join(classes) or 'nothing'}."
    hint = did_you_mean(class_name, classes) or present
    return UsageError(f"{where} has no class {class_name!r}.{hint}")


def _no_module(missing: str, top: str, folder: Path | None, setting: str) -> UsageError:
    files = [path.stem for path in sorted(folder.glob("*.py"))] if folder else []
    where = f"in {folder}" if folder else "beside the recipe"
    return UsageError(
        f"{setting}: there is no module {missing!r}.{did_you_mean(top, files)} Your own module is "
        "a "
        f"file {top}.py {where}; the project's networks are in asdf.networks."
    )


def _import(module_name: str, folder: Path | None, setting: str) -> ModuleType:
    top = module_name.partition(".")[0]
    try:
        with _searched_first(folder):
            module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise AsdfError(
                f"{setting}: importing {module_name} failed: {describe_error(error)}."
            ) from error
        raise _no_module(error.name, top, folder, setting) from error
    except AsdfError:
        raise
    except Exception as error:
        raise AsdfError(
            f"{setting}: importing {module_name} failed: {describe_error(error)}."
        ) from error
    own = folder / f"{top}.py" if folder else None
    found = getattr(sys.modules[top], "__file__", None)
    if own and own.is_file() and (found is None or Path(found).resolve() != own.resolve()):
        raise UsageError(
            f"{setting}: {own} is hidden by another module named {top!r} ({found or 'built in'}). "
            "Rename your file."
        )
    return module


@contextmanager
def _searched_first(folder: Path | None) -> Iterator[None]:
    before = list(sys.path)
    if folder:
        sys.path.insert(0, str(folder.resolve()))
        invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _is_a(base: type, value: object) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "built in"


def describe_error(error: Exception, skip_file: str = __file__) -> str:
    """Return the kind and text of an error and where it was raised, unless that was in `skip_file`."""
    raised_at = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}"
    # A syntax error's own text says where it is.
    if raised_at.filename == skip_file or isinstance(error, SyntaxError):
        return text
    return f"{text} ({raised_at.filename}, line {raised_at.lineno})"
