"""Masking of features in training, as wav2vec 2.0 is fine-tuned: spans of frames, and bands of feature values.

Invariant: masks follow from torch's generator on the CPU alone, which is seeded in each step, so that a resumed run
draws the same ones on any device. Outside training, and at proportions of 0, nothing is drawn and nothing changes.

Source: Park et al., "SpecAugment", Interspeech 2019; Baevski et al., "wav2vec 2.0", NeurIPS 2020, and fairseq.

Shapes: B utterances, L frames, C feature values.
"""

from __future__ import annotations

import torch
from torch import Tensor, library, nn

from asdf.settings.sections import FrontEnd


class Masking(nn.Module):
    """Masked frames become a learned vector, which pretrained networks bring along; masked bands become 0."""

    def __init__(self, settings: FrontEnd, dimension: int) -> None:
        super().__init__()
        self.time = settings.time_mask_proportion, settings.time_mask_length
        self.channels = settings.channel_mask_proportion, settings.channel_mask_length
        if self.time[0]:
            self.embedding = nn.Parameter(torch.rand(dimension))

    def load_embedding(self, embedding: Tensor) -> None:
        """Take over the vector (dimension,) that pretraining put at masked frames."""
        if self.time[0]:
            self.embedding.data.copy_(embedding)

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Masked features (batch, frames, dimension); each utterance has masks of its own."""
        if not self.training:
            return x_BLC
        batch, frames, dimension = x_BLC.shape
        if self.time[0]:
            mask_BL1 = draw_spans_on(x_BLC.device, batch, frames, *self.time).unsqueeze(2)
            # Chosen by `where`, the vector gets a gradient also when no frame is masked.
            x_BLC = torch.where(mask_BL1, self.embedding.to(x_BLC.dtype), x_BLC)
        if self.channels[0]:
            mask_B1C = draw_spans_on(x_BLC.device, batch, dimension, *self.channels).unsqueeze(1)
            x_BLC = x_BLC.masked_fill(mask_B1C, 0.0)
        return x_BLC


def draw_spans(rows: int, size: int, proportion: float, length: int) -> Tensor:
    """A mask (rows, size), True inside the spans of each row.

    A row has proportion * size / length spans, rounded up or down at random so that this is the mean, with different
    starts. They may overlap, so fewer than `proportion` of the values are masked. fairseq evens the rows of a batch
    out to equal numbers of masked frames, and masks two spans at least; here rows are drawn independently.
    """
    length = min(length, size)
    starts = size - length + 1
    counts = (proportion * size / length + torch.rand(rows)).int().clamp(max=starts)
    order = torch.rand(rows, starts).argsort(dim=1)
    begins = torch.zeros(rows, size, dtype=torch.long)
    begins[:, :starts] = order < counts[:, None]
    # A value is masked when a span begins at it or up to `length` - 1 before it.
    total = begins.cumsum(dim=1)
    total[:, length:] -= total[:, :-length].clone()
    return total > 0


# A compiler would draw other numbers, and cannot follow a copy by way of pinned memory: to it this is one operation, of
# which it knows the outcome's shape. That the numbers are random keeps it from drawing once for two calls.
@library.custom_op("asdf::draw_spans", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def draw_spans_on(
    device: torch.device, rows: int, size: int, proportion: float, length: int
) -> Tensor:
    """`draw_spans`, drawn on the CPU and sent to `device`, for which the host does not wait."""
    mask = draw_spans(rows, size, proportion, length)
    if device.type != "cuda":
        return mask.to(device)
    return mask.pin_memory().to(device, non_blocking=True)


@draw_spans_on.register_fake
def _(device: torch.device, rows: int, size: int, proportion: float, length: int) -> Tensor:
    return torch.empty(rows, size, dtype=torch.bool, device=device)
