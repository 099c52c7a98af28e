"""A network as stage 2 uses it: which samples of a recording count, in which batches, and the score that comes out.

Invariant: a recording's score does not depend on the recordings that it is scored with, up to rounding; so none is cut
to share a batch with others (`network.max_cut_proportion`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from asdf.audio import repeat_to
from asdf.audio.speech_activity import apply as apply_speech_activity
from asdf.audio.speech_activity import check_detector
from asdf.data.scoring_plan import ScoringBatch, scoring_batches
from asdf.errors import UsageError
from asdf.networks import fixed_samples, scoring_length
from asdf.settings.sections import Sections


class Scorer:
    """The network's own scores of waveforms at 16 kHz.

    Attributes:
        most: samples, after speech activity detection, beyond which nothing counts.
        whole: whether speech activity detection needs a whole recording before its first samples are known.
    """

    def __init__(self, network: nn.Module, settings: Sections, device: torch.device) -> None:
        self.device = device
        self._network = network.to(device).eval()
        check_detector(settings.sad)
        self._sad = settings.sad
        fixed, plan = fixed_samples(network), replace(settings.network, max_cut_proportion=0.0)
        if fixed is not None:
            plan.min_evaluation_utterance_length_in_samples = plan.max_evaluation_utterance_length_in_samples = fixed
        self._plan = plan
        self.most = plan.max_evaluation_utterance_length_in_samples
        self.whole = settings.sad.mode != "off"

    def speech(self, waveform: np.ndarray) -> np.ndarray:
        """What of `waveform` (T,) the network is to hear."""
        return apply_speech_activity(waveform, self._sad)

    def batches(self, lengths: Sequence[int]) -> list[ScoringBatch]:
        """Batches of recordings with so many samples of speech."""
        if not lengths:
            return []
        return scoring_batches(np.array(lengths), self._plan, lambda samples: scoring_length(self._network, samples))

    def scores(self, speech: Sequence[np.ndarray]) -> np.ndarray:
        """The scores of what is left of waveforms of any lengths, none of them empty: (waveforms,) float32."""
        scores = np.empty(len(speech), np.float32)
        for batch in self.batches([len(waveform) for waveform in speech]):
            parts = [repeat_to(speech[index][: batch.samples], batch.samples) for index in batch.trials]
            scores[batch.trials] = self.forward(np.stack(parts))
        return scores

    def forward(self, waveforms_BT: np.ndarray) -> np.ndarray:
        """The scores of one batch: (batch,) float32."""
        with torch.inference_mode(), _full_precision():
            logits_B2 = self._network(torch.from_numpy(waveforms_BT).to(self.device))[1].float()
            bona_fide_B = logits_B2[:, 1]
            scores_B = bona_fide_B if self._plan.score == "bona_fide" else bona_fide_B - logits_B2[:, 0]
            return scores_B.cpu().numpy()


def find_device(wanted: str | torch.device) -> torch.device:
    """The device of that name; 'auto' is a GPU where there is one, else the CPU.

    Raises:
        UsageError: there is no such device.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise UsageError(f"there is no device {wanted!r}: write 'auto', 'cpu', 'cuda' or 'cuda:1'.") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"there is no device {wanted}: {torch.cuda.device_count()} GPUs are visible here.")
    return device


@contextmanager
def _full_precision() -> Iterator[None]:
    """No TF32, whatever the program around has chosen: with it scores have about 3 digits."""
    matmul, convolutions = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, convolutions
