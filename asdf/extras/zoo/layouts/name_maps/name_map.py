"""Map of a toolkit's or challenge's layer names to ours, with facts about its program.

Invariant: a map is one to one. Other tensors in a file are computed by the network and compared, or
are irrelevant for scores; both are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.extras.zoo.layouts.name_maps.training_config import Stated
from asdf.networks.front_ends.architectures import Architecture

_ENCODER = "front_end.model."


@dataclass(frozen=True)
class Conversion:
    """Conversion of an output layer to ours, which has spoof first and bona fide second.

    Attributes:
        outputs: Number of outputs in the layout.
        to_ours, to_theirs: Functions of a weight or bias, which are inverses.
    """

    outputs: int
    to_ours: Callable[[Tensor], Tensor]
    to_theirs: Callable[[Tensor], Tensor]


FLIPPED = Conversion(2, lambda rows: rows.flip(0), lambda rows: rows.flip(0))
"""Two outputs with bona fide first."""


def _with_zeros(rows: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(rows), rows])


# Only the difference of our two logits matters to their softmax.
SINGLE = Conversion(1, _with_zeros, lambda rows: rows[1:] - rows[:1])
"""A single output, the logit of bona fide speech: ours are then 0 and that logit."""


@dataclass(frozen=True)
class NameMap:
    """A layout described by a map of names.

    Attributes:
        name: Name of the layout's author or toolkit.
        kind: Name of our class.
        layout: Name of the layout, with its parts, as printed by `import`.
        marks: Names of layers that together identify the layout.
        parts: Pairs of prefixes, theirs and ours; the first pair that matches applies.
        front_end: Prefix of the layers of a front end of the wav2vec 2.0 family; '' without one.
        front_ends: Short names of the possible front ends of a layout without such layers; the
            first one that fits the layers is used.
        words: Words in names of an encoder of transformers, theirs and ours.
        may_lack_front_end: Whether published files may hold only trained weights.
        conversions: Conversions of output layers, by our names.
        constants: Function that returns layers that the network computes but files contain.
        unused: Prefixes of layers that scores do not depend on, by reason.
        settings: Settings that its program implies, by full name.
        bona_fide: Sentence on which output is bona fide.
        samples: Number of samples that its program scores; None: whole recordings.
        normalizes: Whether its program scales waveforms; None: as in s3prl.
        computed: Function of a network that returns layers of its sizes that files contain but it
            computes.
        stated: Function of a path that reads the configuration next to a checkpoint.
        nested_in: Key of the layers in its program's files; '' if they are at the top level.
        remarks: Sentences on further processing in its program, which is not done here.
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
        """Return our name of a layer; None if it has none."""
        ours = _replace_start(name, self.parts)
        if ours is not None and ours.startswith(_ENCODER):
            for old, new in self.words:
                ours = ours.replace(old, new)
        return ours

    def their_name(self, name: str) -> str | None:
        """Return the layout's name of our layer; None if it has none."""
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
