"""Where runs are put: GPUs, or places on the CPU.

Invariant: no slot is held by two runs at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from asdf.errors import UsageError


class Slots:
    """Free places, handed out in their order.

    Args:
        names: GPUs as CUDA_VISIBLE_DEVICES names them, or anything that counts places on the CPU.
        are_gpus: a run of N processes then takes N slots; on the CPU it takes one, whatever it is made of.
    """

    def __init__(self, names: Sequence[str], are_gpus: bool) -> None:
        self.names, self.are_gpus = tuple(names), are_gpus
        self._free = list(names)

    def needed(self, processes: int) -> int:
        """How many slots a run of so many processes takes."""
        return processes if self.are_gpus else 1

    def take(self, count: int) -> tuple[str, ...] | None:
        """`count` slots, or None while so many are not free."""
        if count > len(self._free):
            return None
        taken, self._free = self._free[:count], self._free[count:]
        return tuple(taken)

    def give_back(self, taken: Sequence[str]) -> None:
        """Free slots again."""
        self._free = [name for name in self.names if name in self._free or name in taken]

    def visible_devices(self, taken: Sequence[str]) -> str:
        """CUDA_VISIBLE_DEVICES of a run that holds these slots."""
        return ",".join(taken) if self.are_gpus else ""

    def describe(self, taken: Sequence[str]) -> str:
        """The slots in words, e.g. 'GPU 0'."""
        return f"{'GPU' if self.are_gpus else 'slot'} {','.join(taken)}"


def choose_gpus(asked: str | None, visible: int, shown: str | None) -> tuple[str, ...]:
    """The GPUs of `--gpus asked` (None: all visible ones), as CUDA_VISIBLE_DEVICES has to name them.

    Args:
        asked: numbers with commas between them, which count what is visible here, as `computing.gpu_ids` does.
        visible: how many GPUs are visible.
        shown: CUDA_VISIBLE_DEVICES here, where it is set; a scheduler may have put numbers or UUIDs there.

    Raises:
        UsageError: not numbers, a GPU twice, or one that is not there.
    """
    names = (
        [name.strip() for name in shown.split(",")]
        if shown is not None
        else list(map(str, range(visible)))
    )
    if asked is None:
        return tuple(names[:visible])
    numbers = [part.strip() for part in asked.split(",")]
    mistake = ""
    if not all(number.isdecimal() for number in numbers):
        mistake = "numbers with commas between them are needed, such as --gpus 0,1,2,3"
    elif len({int(number) for number in numbers}) < len(numbers):
        mistake = "a GPU is named twice"
    elif max(map(int, numbers)) >= visible:
        there = (
            f"{visible} visible, numbered from 0"
            if visible
            else "no NVIDIA GPU is visible; --slots N uses the CPU"
        )
        variable = f"CUDA_VISIBLE_DEVICES is {'not set' if shown is None else repr(shown)}"
        mistake = f"GPU {max(map(int, numbers))} is not there: {there} ({variable})"
    if mistake:
        raise UsageError(f"--gpus {asked}: {mistake}.")
    return tuple(names[int(number)] for number in numbers)
