"""Features of frames as maps of values and times, for networks that treat them as images.

Invariant: the output of Whisper's encoder, in frames of 20 ms, is tiled to the length of cepstra in
frames of 10 ms, as in the code of Whisper-MesoNet; frames of the two then cover different times.

Source: piotrkawa/deepfake-whisper-features, `src/models/whisper_meso_net.py`.

Shapes: B utterances, L frames, C values of a frame, M maps, F values, N times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd

_SLOW_HOP = 320
"""Number of samples between frames from which a map is repeated."""


class FrameMaps:
    """A converter from features of a front end to maps.

    Attributes:
        maps: Number of maps: 1, or 2 for an encoder with cepstra.
        values: Number of values of a map.
        frames: Number of frames in a map per frame of the front end.
    """

    def __init__(self, front_end: FrontEnd, fewest: int) -> None:
        """Read the sizes of the front end.

        Args:
            fewest: Minimum number of values of a map that the network needs.

        Raises:
            UsageError: there are fewer values.
        """
        beside = getattr(front_end, "cepstral_values", 0)
        self.maps = 2 if beside else 1
        self.frames = 2 if front_end.hop >= _SLOW_HOP else 1
        self.values = front_end.dimension - self.frames * beside
        if self.values < fewest:
            raise UsageError(
                f"the back end needs maps of at least {fewest} values, but the front end gives "
                f"{self.values} per frame. Choose a front end with more values."
            )

    def __call__(self, features_BLC: Tensor) -> Tensor:
        """Return (batch, maps, values, times)."""
        first_BLF = features_BLC[:, :, : self.values]
        first_BFN = torch.cat([first_BLF] * self.frames, dim=1).transpose(1, 2)
        if self.maps == 1:
            return first_BFN.unsqueeze(1)
        beside_BLC = features_BLC[:, :, self.values :]
        batch, frames, _ = beside_BLC.shape
        beside_BNF = beside_BLC.reshape(batch, self.frames * frames, -1)
        return torch.stack([first_BFN, beside_BNF.transpose(1, 2)], dim=1)
