"""The base of front ends that compute each frame from its samples: deltas and normalisation.

Invariant: a frame's static values depend only on its samples; deltas and normalisation are those of
the section `spectrum`, the same for every kind of static values.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from asdf.facts import SAMPLE_RATE
from asdf.networks.autocast import without_autocast
from asdf.networks.front_ends.front_end import FrontEnd

MIN_VARIANCE = 1e-10


def in_time(samples: int, rate: int) -> int:
    """Return the number of samples at `rate` Hz for `samples` at 16 kHz, rounded."""
    return round(samples * rate / SAMPLE_RATE)


class FramedFrontEnd(FrontEnd):
    """A front end whose `model` computes the static values of frames from waveforms.

    Attributes:
        deltas: Number of times that differences over time are appended.
    """

    deltas: int

    def set_dimension(self, static: int, deltas: int) -> None:
        """Set the number of values per frame from the number of static values."""
        self.deltas = deltas
        self.dimension = static * (deltas + 1)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the features: static values, then their differences over time."""
        with without_autocast(waveforms_BT):
            x_BLC: Tensor = self.model(waveforms_BT.float())
            blocks = [x_BLC]
            for _ in range(self.deltas):
                blocks.append(time_differences(blocks[-1]))
            x_BLC = torch.cat(blocks, dim=2)
            x_BLC = normalize_over_time(x_BLC, self.sections.spectrum.normalization)
        yield self.mask(x_BLC)

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class without an architecture, and the spectrum's."""
        known = super().feature_settings()
        del known["architecture"]
        spectrum = asdict(self.sections.spectrum)
        known = {**known, "kind": type(self).__name__, "spectrum": spectrum}
        rate = self.sections.audio.sample_rate
        # Features cached before this choice existed state no rate.
        return known if rate == SAMPLE_RATE else {**known, "sample_rate": rate}


def time_differences(x_BLC: Tensor) -> Tensor:
    """Return the difference of each frame's neighbours, repeating the first and the last frame."""
    earlier_BLC = torch.cat([x_BLC[:, :1], x_BLC[:, :-1]], dim=1)
    later_BLC = torch.cat([x_BLC[:, 1:], x_BLC[:, -1:]], dim=1)
    return later_BLC - earlier_BLC


def normalize_over_time(x_BLC: Tensor, kind: str) -> Tensor:
    """Return features minus their mean over the utterance, optionally divided by the deviation."""
    if kind == "none":
        return x_BLC
    centred_BLC = x_BLC - x_BLC.mean(dim=1, keepdim=True)
    if kind == "mean":
        return centred_BLC
    variance_B1C = centred_BLC.square().mean(dim=1, keepdim=True)
    return centred_BLC / variance_B1C.clamp(min=MIN_VARIANCE).sqrt()
