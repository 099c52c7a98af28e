"""The trivial front end: raw samples, one by one or in frames.

Shapes: B utterances, T samples, L frames, C samples of a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.traced_sizes import windows
from asdf.settings.sections import FrontEnd as FrontEndSettings


class RawFrontEnd(FrontEnd):
    """The samples unchanged, in frames of `spectrum.window` samples every `spectrum.hop` samples.

    By default, each sample is a frame of one value, for back ends with filters of their own.
    """

    cacheable = True

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the section `spectrum`."""
        self.window = self.sections.spectrum.window or 1
        self.hop = self.sections.spectrum.hop or self.window
        self.dimension = self.window

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return a module without parameters."""
        return nn.Identity()

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the samples, (batch, frames, window)."""
        yield self.mask(windows(waveforms_BT, self.window, self.hop))

    def feature_settings(self) -> dict[str, Any]:
        """Return the base class's settings without an architecture, and those of the frames."""
        known = super().feature_settings()
        del known["architecture"]
        return {**known, "kind": type(self).__name__, "frames": [self.window, self.hop]}
