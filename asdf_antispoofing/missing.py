"""What is said where a package that ASDF requires is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import TracebackType

REQUIRED = (
    *("torch", "torchaudio", "numpy", "jinja2", "matplotlib", "safetensors", "soundfile", "av"),
    *("filelock", "tqdm"),
)


def explain_missing_packages() -> None:
    """Let a program that ends since a required package is missing say so in one message.

    Where all are installed nothing is changed. A program may still catch the ModuleNotFoundError,
    and `python -m asdf doctor` works without them.
    """
    missing = [name for name in REQUIRED if name not in sys.modules and find_spec(name) is None]
    if not missing:
        return
    show_before = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        if name is None or name.partition(".")[0] not in missing:
            show_before(kind, error, traceback)
            return
        sys.stderr.write(f"error: {describe_missing(missing)}\n")

    sys.excepthook = show


def describe_missing(names: list[str]) -> str:
    """Return what is missing, and the command that installs it."""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"ASDF needs {', '.join(names)}, which {verb} not installed for {sys.executable}. Install "
        f"what is missing: {sys.executable} -m pip install {' '.join(names)}"
    )
