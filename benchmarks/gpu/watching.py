"""Waits of the host for the GPU, as reported by torch (torch.cuda.set_sync_debug_mode).

torch reports waits for copies, for values that are read and for streams. Events and
`torch.cuda.synchronize`, which it does not report, are counted here.

    with Waits() as waits:
        step()
    waits.locations     {'distributed/gpus.py': 1}
"""

from __future__ import annotations

import collections
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import asdf

# The only part of ASDF that waits, for values that were sent earlier.
ALLOWED = "distributed/gpus.py"
_PACKAGE = f"{Path(asdf.__file__).parent}{os.sep}"
_REPORTED = "synchronizing CUDA operation"


class Waits:
    """Counts waits by the ASDF file that caused them."""

    def __init__(self) -> None:
        self.locations: collections.Counter[str] = collections.Counter()
        self._warnings = warnings.catch_warnings()
        self._replaced: list[tuple[Any, str, Callable[..., Any]]] = []

    def __enter__(self) -> Waits:
        torch.cuda.synchronize()
        self._warnings.__enter__()
        torch.cuda.set_sync_debug_mode("warn")  # which warns that it is a prototype
        warnings.simplefilter("always")
        warnings.showwarning = self._note_warning
        self._count_calls(torch.cuda.Event, "synchronize")
        self._count_calls(torch.cuda, "synchronize")
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, function in self._replaced:
            setattr(owner, name, function)
        torch.cuda.set_sync_debug_mode("default")
        self._warnings.__exit__(None, None, None)

    def _count_calls(self, owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            self._note()
            return function(*args, **options)

        self._replaced.append((owner, name, function))
        setattr(owner, name, counted)

    def _note_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        if _REPORTED in str(message):
            self._note()

    def _note(self) -> None:
        paths = [frame.filename for frame in traceback.extract_stack()]
        paths_of_asdf = [path.removeprefix(_PACKAGE) for path in paths if path.startswith(_PACKAGE)]
        self.locations[paths_of_asdf[-1] if paths_of_asdf else "torch"] += 1
