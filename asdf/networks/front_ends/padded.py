"""Waveforms of recordings of varying length, padded to the longest, and masks of their frames.

Shapes: B utterances, T samples, L frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from asdf.networks.interface import repeat_short


@dataclass(frozen=True)
class Padded:
    """A batch of recordings of varying length, which a front end takes instead of one tensor.

    Attributes:
        recordings: Waveforms, each (1, samples).
        masks: Whether features equal those of each recording alone, padded with zeros; False for
            those of recordings padded with silence.
    """

    recordings: Sequence[Tensor]
    masks: bool = True

    @classmethod
    def from_batch(
        cls, waveforms_BT: Tensor, lengths_B: Tensor, shortest: int, masks: bool
    ) -> Padded:
        """Return the recordings of a padded batch, repeating those below `shortest` samples."""
        recordings = []
        for row, length in enumerate(lengths_B.tolist()):
            recordings.append(repeat_short(waveforms_BT[row : row + 1, :length], shortest))
        return cls(recordings, masks)

    @property
    def lengths(self) -> list[int]:
        """The number of samples of each recording."""
        return [recording.shape[1] for recording in self.recordings]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient with respect to the samples is required."""
        return any(recording.requires_grad for recording in self.recordings)


def pad_rows(rows: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors (1, any, ...), padded with zeros: (batch, longest, ...)."""
    return pad_sequence([row[0] for row in rows], batch_first=True)


def counting_frames(frames: Sequence[int], device: torch.device) -> Tensor:
    """Return a mask (B, L) that is True for frames of recordings and False for padding."""
    numbers_L = torch.arange(max(frames), device=device)
    return numbers_L < torch.tensor(frames, device=device)[:, None]


def mean_over_frames(features_BLC: Tensor, counts_BL: Tensor) -> Tensor:
    """Return the mean over the frames that are not padding, (B, C)."""
    kept_BLC = features_BLC * counts_BL[:, :, None]
    return kept_BLC.sum(dim=1) / counts_BL.sum(dim=1)[:, None]


def softmax_over_frames(scores_BLH: Tensor, counts_BL: Tensor) -> Tensor:
    """Return the softmax over the frames that are not padding, 0 for padding: (B, L, H)."""
    return scores_BLH.masked_fill(~counts_BL[:, :, None], -torch.inf).softmax(dim=1)
