"""Slots for runs: GPUs, or slots on the CPU.

Invariant: a slot is held by at most one run at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from asdf.errors import UsageError


class Slots:
    """Free slots, handed out in their order.

    Args:
        names: Names of GPUs as in CUDA_VISIBLE_DEVICES, or any names of slots on the CPU.
        are_gpus: Whether slots are GPUs, of which a run of N processes takes N; on the CPU it takes
            one slot.
    """

    def __init__(self, names: Sequence[str], are_gpus: bool) -> None:
        self.names = tuple(names)
        self.are_gpus = are_gpus
        self._free = list(names)

    def needed(self, processes: int) -> int:
        """Return the number of slots that a run of `processes` processes takes."""
        return processes if self.are_gpus else 1

    @property
    def free(self) -> int:
        """The number of slots that no run holds."""
        return len(self._free)

    def take(self, count: int) -> tuple[str, ...] | None:
        """Return `count` slots, or None while fewer are free."""
        if count > len(self._free):
            return None
        taken = tuple(self._free[:count])
        del self._free[:count]
        return taken

    def give_back(self, taken: Sequence[str]) -> None:
        """Free slots again."""
        free = {*self._free, *taken}
        # Ordered by name, so that runs get the same slots whichever run ended first.
        self._free = [name for name in self.names if name in free]

    def visible_devices(self, taken: Sequence[str]) -> str:
        """Return CUDA_VISIBLE_DEVICES for a run that holds these slots."""
        return ",".join(taken) if self.are_gpus else ""

    def describe(self, taken: Sequence[str]) -> str:
        """Return the slots in words, such as 'GPU 0'."""
        kind = "GPU" if self.are_gpus else "slot"
        return f"{kind} {','.join(taken)}"


def choose_gpus(requested: str | None, visible: int, shown: str | None) -> tuple[str, ...]:
    """Return the GPUs of `--gpus`, with the names that CUDA_VISIBLE_DEVICES needs.

    Args:
        requested: Comma-separated indices of visible GPUs, as in `computing.gpu_ids`; None for all.
        visible: Number of GPUs that are visible.
        shown: Value of CUDA_VISIBLE_DEVICES, if it is set; a scheduler may use numbers or UUIDs.

    Raises:
        UsageError: an entry is not a number, a GPU is given twice, or a GPU does not exist.
    """
    names = list(map(str, range(visible)))
    if shown is not None:
        # Indices count among the scheduler's GPUs.
        names = _split(shown)
    if requested is None:
        # CUDA ignores all names from the first unknown one.
        return tuple(names[:visible])
    texts = _split(requested)
    if not all(map(str.isdecimal, texts)):
        raise UsageError(
            f"--gpus {requested}: write numbers separated by commas, such as --gpus 0,1,2,3."
        )
    indices = list(map(int, texts))
    if len(set(indices)) < len(indices):
        raise UsageError(f"--gpus {requested}: a GPU is named twice.")
    _check_visible(requested, max(indices), visible, shown)
    return tuple(names[index] for index in indices)


def _split(text: str) -> list[str]:
    return list(map(str.strip, text.split(",")))


def _check_visible(requested: str, highest: int, visible: int, shown: str | None) -> None:
    if highest < visible:
        return
    existing = f"{visible} visible, numbered from 0"
    if not visible:
        existing = "no NVIDIA GPU is visible; --slots N uses the CPU"
    variable = "not set" if shown is None else repr(shown)
    raise UsageError(
        f"--gpus {requested}: GPU {highest} does not exist: {existing} "
        f"(CUDA_VISIBLE_DEVICES is {variable})."
    )
