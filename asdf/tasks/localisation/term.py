"""Loss term of frames: cross-entropy of a frame-level head with the labels of the frames.

Invariant: every frame of a clip counts equally, and all clips have the same number of frames. The
mean over the clips of a step is thus the mean over frames, however the step is divided.

Shapes: B utterances, F frames, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asdf.data.clip_frames import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.networks import frame_hop
from asdf.networks.interface import Outputs
from asdf.settings.sections import Localisation
from asdf.training.terms import ClipKey, Term


class FrameTerm(Term):
    """The mean cross-entropy over a clip's frames, weighted by class."""

    name = "frames"

    def __init__(self, settings: Localisation, frames: ClipFrames) -> None:
        self.weight = settings.weight
        self._class_weights = settings.class_weights
        self._frames = frames

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the labels of the clips' frames, (clips, F) int8."""
        return torch.from_numpy(self._frames.labels(keys))

    def counts(self, targets: Tensor) -> Tensor:
        """Return 1 for each clip."""
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return the means, (B,).

        Raises:
            AsdfError: the network returns no frame logits, or more than a clip has frames.
        """
        logits_BF2 = outputs.extras.get("frames")
        count = 0 if logits_BF2 is None else logits_BF2.shape[1]
        if logits_BF2 is None or not 1 <= count <= targets.shape[1]:
            raise AsdfError(
                f"the network returns logits of {count} frames for a clip of {targets.shape[1]} "
                f"frames of {self._frames.hop} samples, which its frame_hop states. See "
                "asdf.networks.DetectorNetwork."
            )
        kind = torch.promote_types(logits_BF2.dtype, torch.float32)
        # The last frames of a clip may lie beyond the front end's last window.
        labels_BF = targets[:, :count].long()
        values_BF = cross_entropy(logits_BF2.to(kind).transpose(1, 2), labels_BF, reduction="none")
        spoofed, bona_fide = self._class_weights
        # Plain numbers avoid creating tensors here: a captured graph may not copy any to the
        # device.
        weights_BF = spoofed + (bona_fide - spoofed) * labels_BF.to(kind)
        return (weights_BF * values_BF).mean(dim=1)


def build_frame_term(
    network: nn.Module, settings: Localisation, frames: ClipFrames | None
) -> FrameTerm | None:
    """Return the term for a network with a frame-level head; None for one without.

    Args:
        frames: Labels of the frames of training clips.

    Raises:
        UsageError: the network has a frame-level head, but nothing trains it.
    """
    if frame_hop(network) is None:
        return None
    if not settings.enabled or frames is None:
        raise UsageError(
            f"{type(network).__qualname__} has a frame-level head, which only "
            "localisation.enabled = True trains, on a list with the column spoofed_s."
        )
    return FrameTerm(settings, frames)
