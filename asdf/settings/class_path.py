"""Classes named in a setting by a path such as 'my_network.MyNetwork', ours or the user's.

This is the only mechanism for everything that a user may replace by a class. A room that uses such
a class

1. has a setting `x: str = setting("name", ..., check="class_path", names=NAMES)` in `sections`,
   where `NAMES` has the class paths of the project's classes by short names,
2. gets the class by `find_class(class_path_of("section.x", settings.section.x), recipe_folder,
   "section.x", Base)`, which imports it; or a function by `find_function`.

A module is searched for in the recipe's folder first, then on Python's path. The file of such a
class is copied to the run's folder with the user's other code (`catalogue.class_paths`).

Invariant: a class is checked to derive from its base class before it is used.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from inspect import isfunction
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.removed import class_has_left
from asdf.settings.class_files import file_in, is_ours
from asdf.text import did_you_mean

Kind = TypeVar("Kind")
# Files whose lines do not help a user to find the mistake.
_NOT_USERS = (Path(__file__).parents[1], Path(sysconfig.get_path("stdlib")))


def find_class(class_path: str, folder: Path | None, setting: str, base: type[Kind]) -> type[Kind]:
    """Import the class named by `class_path`, such as 'my_network.MyNetwork'.

    Args:
        folder: Folder of the recipe with the user's own modules, which is searched first.
        setting: Name of the setting, for messages.
        base: Base class that the class must derive from.

    Raises:
        UsageError: the module or class does not exist, the class does not derive from `base`, or it
            lacks an abstract method of `base`.
        AsdfError: importing the module fails.
    """
    named = find_named(class_path, folder, setting, base)
    if not _is_of(named, base):
        raise _does_not_fit(class_path, setting, f"a class derived from {_public_name(base)}")
    checked: type[Kind] = named
    check_whole(checked, class_path, setting, base)
    return checked


def check_whole(kind: type, class_path: str, setting: str, base: type) -> None:
    """Check that a class implements the abstract methods of `base`.

    Raises:
        UsageError: it lacks some; the message names them.
    """
    # Only if the base has abstract methods: some of torch's classes are abstract for other uses.
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if getattr(base, "__abstractmethods__", ()) and missing:
        raise UsageError(
            f"{setting}: {class_path} does not implement {' and '.join(missing)}, which "
            f"{base.__name__} requires. See {_public_name(base)}, and check the spelling."
        )


def find_named(
    class_path: str, folder: Path | None, setting: str, base: type[object] | None = object
) -> Any:
    """Import the object that `class_path` names, usually a class.

    Args:
        folder, setting: Folder and setting as in `find_class`.
        base: Base of the classes that a message suggests instead; None suggests functions.

    Raises:
        UsageError: the module does not exist, or lacks the name.
        AsdfError: importing the module fails.
    """
    if class_has_left(class_path):
        raise UsageError(f"{setting}: {class_has_left(class_path)}")
    module_name, _, name = class_path.rpartition(".")
    if not module_name:
        raise UsageError(
            f"{setting}: {class_path!r} names no module. Write 'module.Class': 'my_module.MyClass'."
        )
    module = _import(module_name, folder, setting)
    named = getattr(module, name, None)
    if named is None:
        # A door imports what it offers when it is used.
        names = sorted({*dir(module), *getattr(module, "__all__", ())})
        fitting = [known for known in names if _is_of(getattr(module, known, None), base)]
        raise _no_class(f"{setting}: module {module_name} ({_file_of(module)})", name, fitting)
    return named


def module_file(module_name: str, folder: Path | None) -> Path | None:
    """Return the file of a module in `folder`; None if it is not there."""
    if folder is None or not module_name:
        return None
    file = file_in(folder, module_name)
    return file if file.is_file() else None


def _does_not_fit(path: str, setting: str, needed: str) -> UsageError:
    file = _file_of(sys.modules[path.rpartition(".")[0]])
    return UsageError(f"{setting}: {path} ({file}) is not {needed}, which is required.")


def _public_name(kind: type) -> str:
    """Return the shortest path that a class can be imported by, as in the documents."""
    path, name = kind.__module__, kind.__name__
    modules = (path[: dot.start()] for dot in re.finditer(r"\.|$", path))
    return next(f"{m}.{name}" for m in modules if getattr(sys.modules[m], name, None) is kind)


def _is_of(value: object, base: type | None) -> bool:
    if base is None:
        return isfunction(value)
    return isinstance(value, type) and issubclass(value, base)


def _file_of(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "built in"


def find_function(path: str, folder: Path | None, setting: str) -> Callable[..., Any]:
    """Import the function named by `path`, such as 'my_schedules.triangle'.

    Args:
        folder: Folder of the recipe with the user's own modules, which is searched first.
        setting: Name of the setting, for messages.

    Raises:
        UsageError: the module or the function does not exist.
        AsdfError: importing the module fails.
    """
    named = find_named(path, folder, setting, None)
    if not callable(named) or isinstance(named, type):
        raise _does_not_fit(path, setting, "a function")
    function: Callable[..., Any] = named
    return function


def _no_class(where: str, class_name: str, classes: list[str]) -> UsageError:
    # Tell functions from classes by the usual case of their first letters.
    kind = "function" if class_name[:1].islower() else "class"
    fitting = [name for name in classes if name[:1].islower() == (kind == "function")]
    others = f" Available there: {', '.join(fitting) or 'nothing'}."
    hint = did_you_mean(class_name, fitting) or others
    return UsageError(f"{where} has no {kind} {class_name!r}.{hint}")


def _no_module(missing: str, package: str, folder: Path | None, setting: str) -> UsageError:
    """Return the error for a `missing` module, possibly a submodule of `package`."""
    if is_ours(missing):
        return UsageError(
            f"{setting}: there is no module {missing!r}. ASDF's networks are in asdf.networks."
        )
    files = [path.stem for path in sorted(folder.glob("*.py"))] if folder else []
    where = f"in {folder}" if folder else "next to the recipe"
    return UsageError(
        f"{setting}: there is no module {missing!r}.{did_you_mean(package, files)} Save your own "
        f"module as {package}.py {where}."
    )


def _import(module_name: str, folder: Path | None, setting: str) -> ModuleType:
    package = module_name.partition(".")[0]
    try:
        with searched_first(folder):
            module = import_module(module_name)
    except ModuleNotFoundError as error:
        # Either the module itself or one that it imports does not exist.
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise _no_module(error.name, package, folder, setting) from error
        raise _import_failed(module_name, setting, error) from error
    # An AsdfError already says what to do.
    except AsdfError:
        raise
    # A script that exits when it is imported would end the run as if it had succeeded.
    except (Exception, SystemExit) as error:
        raise _import_failed(module_name, setting, error) from error
    imported = _file_of(sys.modules[package])
    own = folder / f"{package}.py" if folder else None
    if own and own.is_file() and Path(imported).resolve() != own.resolve():
        raise UsageError(
            f"{setting}: {own} is hidden by another module named {package!r} ({imported}). Rename "
            "your file."
        )
    return module


def _import_failed(module_name: str, setting: str, error: BaseException) -> AsdfError:
    return AsdfError(f"{setting}: importing {module_name} failed: {describe_error(error)}.")


@contextmanager
def searched_first(folder: Path | None) -> Iterator[None]:
    """Search for modules in `folder` first; None leaves Python's search path unchanged."""
    before = list(sys.path)
    if folder:
        # At the front, so that an installed module of the same name does not hide a user's file.
        sys.path.insert(0, str(folder.resolve()))
        # The file may be newer than Python's cached listing of the folder.
        invalidate_caches()
    try:
        yield
    finally:
        # In place, since other modules may hold this very list.
        sys.path[:] = before


class UserErrors:
    """Turn any failure of the user's class or function in a block into one message.

    The project's own errors pass unchanged.
    """

    def __init__(self, failed: str, advice: str = "", kind: type[AsdfError] = AsdfError) -> None:
        """Set the text of the message before the reason, and the advice after it."""
        self._failed = failed
        self._advice = advice
        self._kind = kind

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # KeyboardInterrupt and SystemExit are no failures of the user's class.
        if trace is None or not isinstance(error, Exception) or isinstance(error, AsdfError):
            return
        # The line of ours that called the user's class is not shown.
        reason = describe_error(error, trace.tb_frame.f_code.co_filename)
        raise self._kind(f"{self._failed}: {reason}. {self._advice}".rstrip()) from error


def describe_error(error: BaseException, skip_file: str = __file__) -> str:
    """Return an error's type and text, and where it was raised unless in `skip_file`.

    For an error inside Python or a package, that is the line of the user's code, if any.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        # Its text names the file without the folder.
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    raised_at = frames[-1]
    for frame in frames:
        path = Path(frame.filename)
        is_installed = {"site-packages", "dist-packages"} & set(path.parts)
        is_ours = any(path.is_relative_to(folder) for folder in _NOT_USERS)
        # '<frozen importlib._bootstrap>' and '<string>' are no files.
        if not (frame.filename.startswith("<") or is_installed or is_ours):
            raised_at = frame
    if raised_at.filename == skip_file:
        return text
    return f"{text} ({raised_at.filename}, line {raised_at.lineno})"
