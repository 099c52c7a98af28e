"""Masking of features in training, as in fine-tuning wav2vec 2.0: spans of frames and values.

Invariant: masks depend only on torch's generator on the CPU, which is seeded in each step, so a
resumed run draws the same masks on any device. Outside training, and at proportions of 0, nothing
is drawn or changed.

Source: Park et al., "SpecAugment", Interspeech 2019; Baevski et al., "wav2vec 2.0", NeurIPS 2020,
and fairseq.

Shapes: B utterances, L frames, C feature values; R rows of S positions, N possible starts of spans.
"""

from __future__ import annotations

import torch
from torch import Tensor, library, nn

from asdf.settings.sections import FrontEnd as FrontEndSettings


class Masking(nn.Module):
    """Masks of frames, replaced by a learned vector, and of bands of values, replaced by 0."""

    def __init__(self, settings: FrontEndSettings, dimension: int) -> None:
        super().__init__()
        self.time_proportion = settings.time_mask_proportion
        self.time_length = settings.time_mask_length
        self.channel_proportion = settings.channel_mask_proportion
        self.channel_length = settings.channel_mask_length
        if self.time_proportion:
            self.embedding = nn.Parameter(torch.rand(dimension))

    def load_embedding(self, embedding: Tensor) -> None:
        """Load the vector (dimension,) that pretraining used for masked frames."""
        if self.time_proportion:
            self.embedding.data.copy_(embedding)

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Mask features (batch, frames, dimension); the masks of utterances are independent."""
        if not self.training:
            return x_BLC
        batch, frames, dimension = x_BLC.shape
        device = x_BLC.device
        if self.time_proportion:
            mask_BL = draw_spans_on(device, batch, frames, self.time_proportion, self.time_length)
            embedding_C = self.embedding.to(x_BLC.dtype)
            # With `where`, the vector gets a gradient even if no frame is masked.
            x_BLC = torch.where(mask_BL.unsqueeze(2), embedding_C, x_BLC)
        if self.channel_proportion:
            mask_BC = draw_spans_on(
                device, batch, dimension, self.channel_proportion, self.channel_length
            )
            x_BLC = x_BLC.masked_fill(mask_BC.unsqueeze(1), 0.0)
        return x_BLC


def draw_spans(rows: int, size: int, proportion: float, length: int) -> Tensor:
    """Draw a mask (rows, size), True inside the spans of each row.

    The number of spans per row is proportion * size / length, randomly rounded up or down to this
    mean, with distinct starts. Spans may overlap, so fewer than `proportion` of the values are
    masked. fairseq equalises the number of masked frames in a batch and masks at least two spans;
    here rows are drawn independently.
    """
    length = min(length, size)
    starts = size - length + 1
    mean_count = proportion * size / length
    counts_R = (mean_count + torch.rand(rows)).int()
    counts_R = counts_R.clamp(max=starts)
    # Rank all possible starts randomly; the first `counts_R` of them are used.
    ranks_RN = torch.rand(rows, starts).argsort(dim=1)
    begins_RS = torch.zeros(rows, size, dtype=torch.long)
    begins_RS[:, :starts] = ranks_RN < counts_R.unsqueeze(1)
    # A value is masked if a span begins at it or up to `length` - 1 before it.
    spans_RS = begins_RS.cumsum(dim=1)
    ended_RS = spans_RS[:, :-length].clone()
    spans_RS[:, length:] -= ended_RS
    return spans_RS > 0


# A compiler would draw other numbers and cannot trace a copy through pinned memory, so this is a
# single operation with a known result shape. The tag for randomness prevents two calls from being
# merged.
@library.custom_op("asdf::draw_spans", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def draw_spans_on(
    device: torch.device,
    rows: int,
    size: int,
    proportion: float,
    length: int,
) -> Tensor:
    """Call `draw_spans` on the CPU and copy the result to `device` without blocking the host."""
    mask_RS = draw_spans(rows, size, proportion, length)
    if device.type != "cuda":
        return mask_RS.to(device)
    return mask_RS.pin_memory().to(device, non_blocking=True)


@draw_spans_on.register_fake
def _(
    device: torch.device,
    rows: int,
    size: int,
    proportion: float,
    length: int,
) -> Tensor:
    return torch.empty(rows, size, dtype=torch.bool, device=device)
