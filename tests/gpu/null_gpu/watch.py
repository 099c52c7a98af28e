"""What the null GPU counts, read inside a program that runs on it.

with Watch() as seen:
    step.take(...)
seen.counts     {'kernels': 3592, 'pinned_to_device': 2, ...}: what was added
seen.waits      {'cudaEventSynchronize in distributed/gpus.py': 1}: what it waited for, where
"""

from __future__ import annotations

import collections
import ctypes
import os
import traceback
from pathlib import Path

import asdf

_PACKAGE = f"{Path(asdf.__file__).parent}{os.sep}"
_LIBRARY = ctypes.CDLL(None)
_Listener = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def counts() -> dict[str, int]:
    """All counters since the program's start."""
    _LIBRARY.null_gpu_counter_names.restype = ctypes.c_char_p
    _LIBRARY.null_gpu_counter.restype = ctypes.c_long
    names = _LIBRARY.null_gpu_counter_names().decode().split()
    return {name: _LIBRARY.null_gpu_counter(number) for number, name in enumerate(names)}


class Watch:
    """Counts what happens inside `with`, and notes where in ASDF the host waited for a device."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.waits: collections.Counter[str] = collections.Counter()
        self._listener = _Listener(self._note)

    def operations(self) -> int:
        """What the host queued on devices: kernels, library calls, memory operations, graphs."""
        names = ("kernels", "library_calls", "memory_sets", "within_devices", "replays")
        return sum(self.counts.get(name, 0) for name in names)

    def __enter__(self) -> Watch:
        self._before = counts()
        _LIBRARY.null_gpu_listen(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        _LIBRARY.null_gpu_listen(None)
        changes = {name: number - self._before[name] for name, number in counts().items()}
        self.counts = {name: change for name, change in changes.items() if change}

    def _note(self, how: bytes) -> None:
        # A thread of torch's, such as autograd's, has no frame of ours.
        paths = [frame.filename for frame in traceback.extract_stack()]
        own = [path.removeprefix(_PACKAGE) for path in paths if path.startswith(_PACKAGE)]
        self.waits[f"{how.decode()} in {own[-1] if own else 'torch'}"] += 1
