"""A network as stage 2 uses it: which samples of a recording count, in which batches, and the score that comes out.

Invariant: a recording's score does not depend on the recordings that it is scored with, up to rounding; so none is cut
to share a batch with others (`network.max_cut_proportion`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from asdf.audio import repeat_to
from asdf.audio.speech import needs_whole_recording
from asdf.audio.speech_activity import check_detector, cut_to_speech
from asdf.data.scoring_plan import ScoringBatch, scoring_batches
from asdf.distributed.cores import usable_cores
from asdf.distributed.resources import gpu_memory
from asdf.distributed.transfer import fetch_later, send
from asdf.errors import UsageError
from asdf.networks import fixed_samples, scoring_length
from asdf.scoring.memory_errors import memory_errors_as_messages
from asdf.scoring.precision import choose_scoring_precision
from asdf.settings.sections import Network, Sections

# Windows that are held together, in samples: 64 MiB, so that batches are full and ten hours are no more than an hour.
_HELD_SAMPLES = 2**24


class Scorer:
    """The network's own scores of waveforms at 16 kHz.

    Attributes:
        least: samples up to which a shorter recording is repeated, after speech activity detection.
        most: samples beyond which nothing counts.
        sad: the settings of speech activity detection.
        whole: whether speech activity detection needs a whole recording before its first samples are known.
        precision: what scores are computed in, and why.
    """

    def __init__(
        self,
        network: nn.Module,
        settings: Sections,
        device: torch.device,
        full_length: bool = False,
        precision: str = "fp32",
    ) -> None:
        """Move `network` to `device`; `full_length` and `precision` are those of `asdf.Detector`.

        Raises:
            UsageError: `full_length` for a network of one length, a precision that the device has not, or a detector
                of speech that is not installed.
        """
        self.device = device
        self.precision = choose_scoring_precision(precision, device)
        self._network = network.to(device).eval()
        check_detector(settings.sad)
        self.sad = settings.sad
        self.whole = needs_whole_recording(settings.sad)
        self.least, self.most = _lengths(network, settings.network, full_length)
        self._plan = replace(
            settings.network,
            max_cut_proportion=0.0,
            min_evaluation_utterance_length_in_samples=self.least,
            max_evaluation_utterance_length_in_samples=self.most,
        )

    def speech(self, waveform: np.ndarray) -> np.ndarray:
        """What of `waveform` (T,) the network is to hear."""
        return cut_to_speech(waveform, self.sad)

    def batches(self, lengths: Sequence[int]) -> list[ScoringBatch]:
        """Batches of recordings with so many samples of speech."""
        if not lengths:
            return []
        return scoring_batches(
            np.array(lengths),
            self._plan,
            lambda samples: scoring_length(self._network, samples),
            gpu_memory(self.device),
        )

    def scores(self, speech: Sequence[np.ndarray]) -> np.ndarray:
        """The scores of what is left of waveforms of any lengths, none of them empty: (waveforms,) float32."""
        scores = np.empty(len(speech), np.float32)
        for batch in self.batches([len(waveform) for waveform in speech]):
            parts = [
                repeat_to(speech[index][: batch.samples], batch.samples) for index in batch.trials
            ]
            scores[batch.trials] = self.forward(np.stack(parts))
        return scores

    def held_windows(self, window: int) -> int:
        """How many windows of so many samples are computed together."""
        return max(1, _HELD_SAMPLES // window)

    def forward(self, waveforms_BT: np.ndarray) -> np.ndarray:
        """The scores of one batch: (batch,) float32.

        Raises:
            AsdfError: it does not fit into the device's memory.
        """
        waveforms = torch.from_numpy(waveforms_BT)
        with (
            self.precision.computing(),
            memory_errors_as_messages(waveforms, self._plan, self.device),
        ):
            logits_B2 = self._network(send(waveforms, self.device))[1].float()
            bona_fide_B = logits_B2[:, 1]
            scores_B = (
                bona_fide_B if self._plan.score == "bona_fide" else bona_fide_B - logits_B2[:, 0]
            )
            return fetch_later(scores_B)().numpy()


def _lengths(network: nn.Module, settings: Network, full_length: bool) -> tuple[int, int]:
    fixed = fixed_samples(network)
    if full_length and fixed is not None:
        raise UsageError(
            f"{type(network).__name__} takes recordings of {fixed:,} samples and no others: it cannot score at full "
            "length. Leave that out; a longer recording is then scored in windows."
        )
    if fixed is not None:
        return fixed, fixed
    if full_length:
        settings = Network()
    return (
        settings.min_evaluation_utterance_length_in_samples,
        settings.max_evaluation_utterance_length_in_samples,
    )


def set_threads(threads: int | None) -> None:
    """Let torch compute with so many threads; None: as many as this process may use cores, or fewer if torch has them.

    Raises:
        UsageError: less than one.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads = {threads}: give 1 or more, or leave it out.")
    torch.set_num_threads(threads or min(torch.get_num_threads(), usable_cores()))


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
        raise UsageError(
            f"there is no device {wanted!r}: write 'auto', 'cpu', 'cuda' or 'cuda:1'."
        ) from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"there is no device {wanted}: {torch.cuda.device_count()} GPUs are visible here."
        )
    return device
