"""Large values for all processes of a run, in one file that each of them maps.

Invariants: a value is made on the main rank only, and is the same on every rank; small values are
sent, large ones are mapped, so that the processes of a node share one copy in memory. Writing to a
mapped array changes only this process's copy. The files stay in the run's own folder until its end,
since another node may read a page of them at any time; those of a failed or killed run are removed
as unfinished files by the next run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.log import LOG

if TYPE_CHECKING:
    from asdf.distributed.world import World

T = TypeVar("T")
MaybeArray = TypeVar("MaybeArray", np.ndarray, "np.ndarray | None")
Arrays = Mapping[str, np.ndarray]

MIN_BYTES = 1 << 20
_ALIGNED = 64

# The position of an array in a file: its offset, shape and type.
_Placed = tuple[int, tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True)
class _Mapped:
    """The main rank's message about a large value: the positions of its arrays in a file."""

    path: Path
    placed: Mapping[str, _Placed]
    rest: Any


class SharedFiles:
    """The values that the processes of `world` share through files in a common `folder`.

    A world of one makes its values and writes nothing.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self._paths: list[Path] = []

    def share(
        self,
        make: Callable[[], T],
        pack: Callable[[Any], tuple[Arrays, Any]],
        unpack: Callable[[Arrays, Any], T],
    ) -> T:
        """Return the main rank's result of `make` on every rank; all call this together.

        Args:
            pack: Function that returns a value's arrays, and the small rest that restores it.
            unpack: Function that restores the value.

        Raises:
            AsdfError: a process does not see the main one's file; raised on all of them.
            Exception: as in `World.run_on_main`.
        """
        if self._world.size == 1:
            return make()
        sent = self._world.run_on_main(lambda: self._send(make(), pack))
        if not isinstance(sent, _Mapped):
            return sent
        # The folder may have another path on another node.
        path = self._folder / sent.path.name
        arrays: dict[str, np.ndarray] = {}
        problem = ""
        try:
            for name, (offset, shape, dtype) in sent.placed.items():
                if 0 in (dtype.itemsize, *shape):  # an empty array cannot be mapped
                    arrays[name] = np.empty(shape, dtype)
                else:
                    # Copy on write, since torch warns of arrays that are not writable.
                    arrays[name] = np.memmap(path, dtype, "c", offset, shape)
        except (OSError, ValueError) as error:
            problem = f"rank {self._world.rank} cannot read {sent.path}: {error}"
        # The first problem of any rank is raised on every rank.
        first = self._world.agree(next(filter(None, self._world.gather(problem) or []), ""))
        if first:
            refused = AsdfError(
                f"{first}. The main process wrote it for all: the system folder must be on a disk "
                "that all nodes share."
            )
            raise self._world.common_error(refused)
        return unpack(arrays, sent.rest)

    def array(self, make: Callable[[], MaybeArray]) -> MaybeArray:
        """Return the main rank's array from `make`, or None if `make` returns None."""
        return self.share(
            make, lambda array: ({"array": array}, None), lambda arrays, _: arrays["array"]
        )

    def close(self) -> None:
        """Remove the files; all ranks call this together, when none of them needs a value."""
        if self._world.size == 1:
            return
        self._world.barrier()
        for path in self._paths:
            with suppress(OSError):
                path.unlink()
        self._paths.clear()

    def _send(self, value: T, pack: Callable[[Any], tuple[Arrays, Any]]) -> T | _Mapped:
        """Return a small value, or the message about a large one, written to a file."""
        arrays, rest = ({}, None) if value is None else pack(value)
        if sum(array.nbytes for array in arrays.values()) < MIN_BYTES:
            return value
        # The folder's owner removes it like half-written files of a killed run.
        path = self._folder / f".shared-{secrets.token_hex(8)}.part"
        placed = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                for name, array in arrays.items():
                    file.write(bytes(-file.tell() % _ALIGNED))
                    placed[name] = (file.tell(), array.shape, array.dtype)
                    file.write(np.ascontiguousarray(array).data)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            LOG.warning("%s cannot be written (%s): each process has a copy", path, error.strerror)
            return value
        self._paths.append(path)
        return _Mapped(path, placed, rest)
