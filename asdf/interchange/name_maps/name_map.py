"""How a toolkit or a challenge names the layers of a detector, and what its program does.

Invariant: a map is one to one. What a file holds besides the network's layers is computed by the
network, and compared with the file, or is of no use for scores; both are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.interchange.name_maps.training_config import Stated
from asdf.networks.front_ends.architectures import Architecture

_ENCODER = "front_end.model."


@dataclass(frozen=True)
class Conversion:
    """How an output layer of a layout becomes ours, which has spoof first and bona fide second.

    Attributes:
        outputs: Number of outputs there.
        to_ours, to_theirs: Functions of a weight or bias; they undo each other.
    """

    outputs: int
    to_ours: Callable[[Tensor], Tensor]
    to_theirs: Callable[[Tensor], Tensor]


FLIPPED = Conversion(2, lambda rows: rows.flip(0), lambda rows: rows.flip(0))
"""Of two outputs the first is bona fide."""


def _with_zeros(rows: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(rows), rows])


SINGLE = Conversion(1, _with_zeros, lambda rows: rows[1:] - rows[:1])
"""One output, the logit of bona fide speech: ours are then 0 and that logit."""


@dataclass(frozen=True)
class NameMap:
    """A layout.

    Attributes:
        name: Whose layout it is.
        kind: Name of our class.
        layout: Name of the layout, with its parts, as `import` prints it.
        marks: Names of layers that together show the layout.
        parts: Beginnings of names there and of ours; the first pair that fits counts.
        front_end: Beginning of the names of a front end's layers of the wav2vec 2.0 family; ''
            without one.
        front_ends: Short names of the front ends that a layout without such layers may have; the
            first of them that fits its layers is taken.
        words: Words in names of an encoder of transformers, there and here.
        may_lack_front_end: Whether files are published that hold what was trained alone.
        conversions: Output layers by our names.
        constants: Function of the layers that the network computes and files hold all the same.
        unused: Beginnings of names of layers that scores do not depend on, by the reason.
        settings: Settings that its program implies, by full names.
        bona_fide: Sentence on which output is bona fide.
        samples: Length that its program scores; None: whole recordings.
        normalizes: Whether its program scales waveforms; None: where s3prl does.
        computed: Function of a network: layers of its sizes that files hold and it computes.
        stated: Function of a path that reads what lies next to a checkpoint.
        nested_in: Key under which its program's files hold the layers; '' where they do bare.
        remarks: Sentences on what its program does besides, which is not done here.
    """

    name: str
    kind: str
    layout: str
    marks: frozenset[str]
    parts: tuple[tuple[str, str], ...]
    bona_fide: str
    front_end: str = ""
    front_ends: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    may_lack_front_end: bool = False
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    constants: Callable[[], Mapping[str, Tensor]] = dict
    unused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: int | None = None
    normalizes: bool | None = None
    computed: Callable[[nn.Module], Mapping[str, Tensor]] | None = None
    stated: Callable[[Path], Stated] | None = None
    nested_in: str = ""
    remarks: tuple[str, ...] = ()

    def scales(self, architecture: Architecture) -> bool:
        """Return whether its program scales the waveforms of a front end."""
        if self.normalizes is not None:
            return self.normalizes
        return architecture.extractor_mode == "layer_norm"

    def our_name(self, name: str) -> str | None:
        """Return our name of a layer; None of one that has none."""
        ours = _replace_start(name, self.parts)
        if ours is not None and ours.startswith(_ENCODER):
            for old, new in self.words:
                ours = ours.replace(old, new)
        return ours

    def their_name(self, name: str) -> str | None:
        """Return the layout's name of our layer; None of one that has none."""
        if name.startswith(_ENCODER):
            for new, old in self.words:
                name = name.replace(old, new)
        back = [(ours, theirs) for theirs, ours in self.parts]
        return _replace_start(name, back)


def _replace_start(name: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    for old, new in pairs:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None
