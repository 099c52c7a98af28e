"""Front ends whose frames are patches of a filter bank: how many there are, and how layers run.

Invariant: a frame is a patch in the order of the authors' networks, those of one time together,
from low to high frequencies. Only whole patches count; nothing is padded.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchaudio.compliance.kaldi import get_mel_banks

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.front_ends.encoder_inputs import HOP, WINDOW
from asdf.networks.front_ends.encoder_layers import choose_dropped
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.settings.sections import FrontEnd as FrontEndSettings

BANDS = 128


class PatchFrontEnd(FrontEnd):
    """What the front ends on patches share.

    Attributes:
        step: Samples from one column of patches to the next.
        per_step: Patches of a column, side by side over frequency.
    """

    step: int
    per_step: int

    def set_patches(self, settings: FrontEndSettings, patch: int) -> None:
        """Set the sizes of patches of `patch` frames and as many bands, and how layers run.

        Raises:
            UsageError: frames are to have scores of their own.
        """
        if self.sections.localisation.enabled:
            raise UsageError(
                f"localisation.enabled = True: the frames of {type(self).__name__} are patches of "
                "time and frequency, which do not follow each other in time. Choose another "
                "front_end.front_end_class."
            )
        self.step = patch * HOP
        self.per_step = BANDS // patch
        self.window = WINDOW + (patch - 1) * HOP
        # On average: all patches of one time begin together.
        self.hop = self.step // self.per_step
        self.layer_drop = settings.layer_drop
        self.gradient_checkpointing = settings.gradient_checkpointing

    def run_layers(
        self,
        layers: Sequence[nn.Module],
        x_BPC: Tensor,
        call: Callable[[nn.Module, Tensor], Tensor],
    ) -> Iterator[Tensor]:
        """Yield the output of each layer, as `call` computes it."""
        dropped = choose_dropped(len(layers), self.layer_drop, self.training)
        for layer, is_dropped in zip(layers, dropped, strict=True):
            if self.gradient_checkpointing and torch.is_grad_enabled():
                output_BPC = checkpoint(call, layer, x_BPC, use_reentrant=False)
            else:
                output_BPC = call(layer, x_BPC)
            # A dropped layer has gradients of zeros, so that no process waits for them.
            x_BPC = x_BPC + 0.0 * output_BPC if is_dropped else output_BPC
            yield x_BPC

    def frames(self, samples: int) -> int:
        """Return how many patches `samples` samples give."""
        if samples < self.window:
            return 0
        columns = (samples - self.window) // self.step + 1
        return columns * self.per_step

    def min_samples(self, frames: int) -> int:
        """Return the fewest samples that give `frames` patches."""
        columns = -(-frames // self.per_step)
        return self.window + (columns - 1) * self.step


def kaldi_bands() -> Tensor:
    """Return Kaldi's triangles in mel (257, 128), in float64 on the CPU."""
    with torch.device("cpu"):
        bins_NF, _ = get_mel_banks(BANDS, 512, float(SAMPLE_RATE), 20.0, 0.0, 100.0, -500.0, 1.0)
    return F.pad(bins_NF, (0, 1)).T.double()
