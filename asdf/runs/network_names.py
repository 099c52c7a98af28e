"""The names of a run's networks, parsed and formatted only here.

'epoch.3' is the network after three epochs, 'epoch.4.step.200' the network after step 200, inside
the fourth epoch. 'average' is the mean of the best networks, and 'resume' a checkpoint inside an
epoch that is never scored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_SUFFIX = ".pt"
# Not \d, which also matches digits of other scripts.
_NUMBERED = re.compile(r"epoch\.([0-9]+)(?:\.step\.([0-9]+))?")
_SHOWN = 8


class TrainingPosition(NamedTuple):
    """The progress of training: whole epochs, and the step inside the next one, or 0."""

    epochs: int
    step: int


@dataclass(frozen=True)
class NetworkName:
    """The name of a network, as in its folder of scores and in tables of results."""

    text: str

    @classmethod
    def parse(cls, name: str) -> NetworkName:
        """Return the name of 'epoch.3' or of the file 'epoch.3.pt'."""
        return cls(name.removesuffix(_SUFFIX))

    @classmethod
    def after_epoch(cls, epochs: int) -> NetworkName:
        return cls(f"epoch.{epochs}")

    @classmethod
    def inside_epoch(cls, epoch: int, step: int) -> NetworkName:
        """Return the name after `step` steps of the run, inside epoch number `epoch`."""
        return cls(f"epoch.{epoch}.step.{step}")

    def __str__(self) -> str:
        return self.text

    @property
    def file(self) -> str:
        """The name of the network's file in the folder of networks."""
        return self.text + _SUFFIX

    @property
    def position(self) -> TrainingPosition | None:
        """The training position of the network; None for 'average' and other names."""
        numbers = _NUMBERED.fullmatch(self.text)
        if numbers is None:
            return None
        epoch, step = numbers.groups()
        if step is None:
            return TrainingPosition(int(epoch), 0)
        # A step inside the fourth epoch follows three whole epochs.
        return TrainingPosition(int(epoch) - 1, int(step))


RESUME = NetworkName("resume")
AVERAGE = NetworkName("average")


def in_order(names: list[NetworkName]) -> list[NetworkName]:
    """Return the names in the order of training, then 'average' and others alphabetically."""
    # Sorted by number: as text, epoch.10 comes before epoch.2.
    numbered = [name for name in names if name.position is not None]
    others = [name for name in names if name.position is None]
    return sorted(numbered, key=_position_of) + sorted(others, key=str)


def _position_of(name: NetworkName) -> TrainingPosition:
    assert name.position is not None
    return name.position


def list_networks(folder: Path) -> list[NetworkName]:
    """Return the networks in `folder` with a training position, oldest first."""
    names = [NetworkName.parse(path.name) for path in folder.glob(f"epoch.*{_SUFFIX}")]
    return in_order([name for name in names if name.position is not None])


def describe_networks(folder: Path) -> str:
    """Return a sentence for messages that lists the newest networks in `folder`."""
    files = [name.file for name in list_networks(folder)]
    if not files:
        return "There are no networks: run stage 1 first."
    return f"There are {', '.join(files[-_SHOWN:])}."
