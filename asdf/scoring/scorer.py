"""The single path from waveforms to scores, for lists, recordings and windows alike.

Invariant: only this module decides how much of a recording counts, which recordings share a batch,
the arithmetic, and which output of the network is the score. A list and the Detector give the same
scores for the same network and settings, and `how_scored` states what was really done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from asdf.audio import repeat_to
from asdf.audio.channels import channels_first, check_count
from asdf.data.batches import REFERENCES
from asdf.data.scoring_plan import ScoringPlan, batch_samples
from asdf.distributed.gpus import fetch_later, send
from asdf.errors import AsdfError, UsageError
from asdf.networks import fixed_samples, scoring_length
from asdf.networks.attached import extras_of, loss_of
from asdf.networks.extras import Extra
from asdf.networks.interface import Outputs, as_outputs, takes_references, waveform_channels
from asdf.networks.split import state_digest
from asdf.scoring.computing import (
    PACKED,
    ScoringPrecision,
    choose_engine,
    memory_errors_as,
    new_computing_lock,
    open_engine,
)
from asdf.scoring.waveform_scorer import Outcomes, WaveformScorer
from asdf.settings.sections import USUAL_AUDIO, Audio, Network
from asdf.text import count_of
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.trial_list import TrialList


def check_usual(audio: Audio, what: str) -> None:
    """Raise an error unless a network hears 16 kHz and the mean of the channels.

    Args:
        what: Name of the tool with this limitation, which begins the message.

    Raises:
        UsageError: the network hears another format.
    """
    if not audio.is_usual:
        raise UsageError(
            f"{what} is made for networks that hear 16 kHz and the mean of the channels; this one "
            f"hears recordings {audio.describe()}."
        )


def scored_length_of(
    network: nn.Module, settings: Network, audio: Audio = USUAL_AUDIO
) -> ScoredLength:
    """Return how much of each recording is scored: the network's fixed length, or the settings'."""
    fixed = fixed_samples(network)
    if fixed is not None:
        return ScoredLength(fixed, fixed, audio.sample_rate)
    return ScoredLength(
        settings.min_evaluation_utterance_length_in_samples,
        settings.max_evaluation_utterance_length_in_samples,
        audio.sample_rate,
    )


class Computed(NamedTuple):
    """The outputs of a network for a batch, on the device.

    Attributes:
        embeddings: First output of the network.
        logits_B2: Logits, (batch, 2) float32, column 1 for bona fide.
        scores_B: Scores, (batch,) float32.
        extras: Rows of the extras, by key: (batch, numbers), or (batch, frames), float32.
    """

    embeddings: Any
    logits_B2: Tensor
    scores_B: Tensor
    extras: Mapping[str, Tensor]


class TrialLoss(Protocol):
    """A loss per trial of a list, from the outputs that the score is computed from.

    Attributes:
        depends_on: Parameters that its values depend on besides the network, as plain values.
    """

    depends_on: Mapping[str, Any]

    def of_trials(self, computed: Computed, utterances: TrialList, trials: np.ndarray) -> Tensor:
        """Return the losses of a batch, (batch,) float32, on the device of the outputs.

        Args:
            trials: Indices into the list, (batch,), without repetition.
        """
        ...


class Scorer(WaveformScorer):
    """A network that scores waveforms at its rate, in batches of equal lengths.

    Attributes:
        trial_loss: Loss of the trials of lists, computed with their scores; None: no loss.
        keeps_network: Whether its first batch leaves the network's layers as they are.
    """

    trial_loss: TrialLoss | None = None

    def __init__(
        self,
        network: nn.Module,
        settings: Network,
        precision: ScoringPrecision,
        gpu_bytes: int = 0,
        engine: str = PACKED,
        owns_network: bool = False,
        audio: Audio = USUAL_AUDIO,
    ) -> None:
        """Score with `network`, and move it to the precision's device.

        Args:
            gpu_bytes: Total memory of the GPU, in bytes, which determines the batch size; 0 on a
                CPU.
            engine: Engine to use, 'packed' or 'plain'; 'packed' is used where it is supported.
            owns_network: Whether only this scorer uses the network, so that packed weights may
                replace the weights instead of adding to them in memory.
            audio: Rate and channels of the waveforms.
        """
        self.device_type = precision.device.type
        self.precision = precision.name
        self._precision = precision
        self.audio = audio
        self.channels = waveform_channels(network)
        self.length = scored_length_of(network, settings, audio)
        assert self.length.max_samples is not None  # settings always have a limit
        self.trial_samples = self.window_samples = self.length.max_samples
        # The parameters are counted before packing changes their layout.
        self.parameters = sum(weights.numel() for weights in network.parameters())
        self._network = network.to(self.device)
        self.engine = choose_engine(engine, precision)
        self._engine = open_engine(self.engine, self._network, owns_network, precision)
        self.keeps_network = not (owns_network and self._engine is not None)
        self.extras: dict[str, Extra] = extras_of(network)
        self.name = type(network).__name__
        self.takes_references = takes_references(network)
        self._reference: np.ndarray | None = None
        # Networks may store intermediate results, as hooks in transformers do.
        self._lock = new_computing_lock()
        self._threads: int | None = None
        self._settings = settings
        loss = loss_of(network)
        gives_ratios = loss is not None and loss.gives_likelihood_ratios
        if settings.score == "llr" and not gives_ratios:
            raise UsageError(
                "network.score = 'llr': the network was not trained for likelihood ratios. Set it "
                "to 'bona_fide' or 'difference', or train the network with 'llr'."
            )
        self.plan = ScoringPlan(
            self.length,
            partial(scoring_length, network),
            batch_samples(settings, gpu_bytes),
            settings.max_cut_proportion,
        )

    @property
    def device(self) -> torch.device:
        return self._precision.device

    @property
    def how_scored(self) -> HowScored:
        """Parameters of scoring that are saved with the scores."""
        return HowScored(self.length, self.precision, self.engine)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return [self._network]

    def use_threads(self, threads: int) -> None:
        self._threads = threads

    @contextmanager
    def _computing_threads(self) -> Iterator[None]:
        """Let torch compute with this scorer's number of threads in the block, on a CPU."""
        # The number is per thread: a thread that has computed before keeps its own.
        before = torch.get_num_threads()
        if self._threads is None or self._threads == before:
            yield
            return
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            # Restore the number for the program's other work and other detectors.
            torch.set_num_threads(before)

    def network_state(self) -> list[str]:
        """Return the identity of the network: its structure and the digest of its state."""
        # The structure includes what the state lacks, such as the strides of convolutions.
        return [repr(self._network), state_digest(self._network)]

    def compute(
        self, waveforms_BT: Tensor, wanted: Collection[str] = (), references: Tensor | None = None
    ) -> Computed:
        """Compute the network's outputs for one batch, on the device, without waiting for them.

        The network is in evaluation mode meanwhile; its mode is restored, also after a failure.

        Args:
            waveforms_BT: Waveforms on the device, or on the host, from which they are copied.
            wanted: Keys of the extras to compute on request.
            references: References of the waveforms, of their shape, for a network that takes some;
                None: that of `with_reference`, or zeros.

        Raises:
            AsdfError: the batch does not fit into the device's memory.
            UsageError: the network gives no such extra.
        """
        for key in wanted:
            self.require(key)
        with (
            self._computing(waveforms_BT),
            self._precision.computing(),
            self._engine.in_use() if self._engine is not None else nullcontext(),
        ):
            if waveforms_BT.device.type != self.device.type:
                waveforms_BT = send(waveforms_BT, self.device)
            outputs, logits_B2, scores_B = self._pass(waveforms_BT, references)
            extras = {}
            for key, extra in self.extras.items():
                if not extra.on_request or key in wanted:
                    extras[key] = extra.of_outputs(outputs)
            return Computed(outputs.embeddings, logits_B2, scores_B, extras)

    @contextmanager
    def _computing(self, waveforms_BT: Tensor) -> Iterator[None]:
        """Hold the network in evaluation mode, with this scorer's threads, for the block."""
        with (
            self._lock,
            self._computing_threads(),
            _in_evaluation_mode(self._network),
            memory_errors_as(partial(self._explain_no_memory, waveforms_BT)),
        ):
            yield

    def _pass(
        self, waveforms_BT: Tensor, references: Tensor | None = None
    ) -> tuple[Outputs, Tensor, Tensor]:
        """Return the network's outputs, and its logits and scores in float32 in any precision."""
        inputs = self._reference_inputs(waveforms_BT, references)
        outputs = as_outputs(self._network(waveforms_BT, **inputs))
        logits_B2 = outputs.logits_B2.float()
        if self._settings.score == "bona_fide":
            return outputs, logits_B2, logits_B2[:, 1]
        # This includes 'llr': such a network subtracts the training priors from its logits.
        return outputs, logits_B2, logits_B2[:, 1] - logits_B2[:, 0]

    def with_reference(self, waveform: np.ndarray) -> Scorer:
        if not self.takes_references:
            return self
        check_count(waveform, self.channels, "the reference")
        # Shallow: both share the network, and the lock that guards it.
        bound = copy(self)
        bound._reference = waveform
        return bound

    def _reference_inputs(
        self, waveforms_BT: Tensor, references: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the inputs of the network besides waveforms."""
        if not self.takes_references:
            return {}
        if references is None and self._reference is not None:
            samples = waveforms_BT.shape[-1]
            heard = channels_first(repeat_to(self._reference[:samples], samples))
            references = torch.from_numpy(heard).expand_as(waveforms_BT)
        if references is None:
            references = torch.zeros_like(waveforms_BT)
        return {REFERENCES: references.to(self.device)}

    def score_with_gradients(self, waveforms_BT: Tensor) -> Tensor:
        if self._engine is not None:
            raise UsageError(f"engine '{self.engine}' has no gradients: use engine 'plain'.")
        given = waveforms_BT.shape[-1]
        samples = self.scored_samples(given)
        repetitions = -(-samples // given)
        # As `repeat_to` does, which is numpy's and carries no gradients.
        heard_BT = torch.cat([waveforms_BT] * repetitions, dim=-1)[..., :samples]
        # cuDNN computes no gradients of recurrent layers in evaluation mode.
        with self._computing(heard_BT), torch.backends.cudnn.flags(enabled=False):
            _, _, scores_B = self._pass(heard_BT)
        if waveforms_BT.requires_grad and not scores_B.requires_grad:
            raise AsdfError(
                f"{type(self._network).__name__} stops gradients between waveform and score."
            )
        return scores_B

    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], wanted: Collection[str] = ()
    ) -> Outcomes:
        for key in wanted:
            self.require(key)
        scores = np.empty(len(waveforms), np.float32)
        rows: dict[str, dict[int, np.ndarray]] = {}
        lengths = np.array([len(waveform) for waveform in waveforms], np.int64)
        for batch in self.plan.batches(lengths):
            parts = [waveforms[index][: batch.samples] for index in batch.trials]
            for part in parts:
                check_count(part, self.channels, "a recording")
            repeated = np.stack([channels_first(repeat_to(part, batch.samples)) for part in parts])
            computed = self.compute(torch.from_numpy(repeated), wanted)
            # All copies to the host start before the first one is waited for.
            fetch_scores = fetch_later(computed.scores_B)
            fetches = {key: fetch_later(values) for key, values in computed.extras.items()}
            scores[batch.trials] = fetch_scores().numpy()
            for key, fetch in fetches.items():
                of_batch = zip(batch.trials.tolist(), fetch().numpy(), strict=True)
                rows.setdefault(key, {}).update(of_batch)
        extras = {}
        for key, by_index in rows.items():
            fit = self.extras[key].fit
            extras[key] = [fit(by_index[index], len(part)) for index, part in enumerate(waveforms)]
        return Outcomes(scores, extras)

    def _explain_no_memory(self, waveforms_BT: Tensor, reason: str) -> AsdfError:
        """Return the error for a batch that does not fit, naming the setting that reduces it."""
        count, samples = len(waveforms_BT), waveforms_BT.shape[-1]
        settings = self._settings
        name = "max_evaluation_utterance_length_in_samples"
        now: Any = self.length.max_samples
        below = f"{samples:,}"
        if count > 1:
            name, now = "eval_minibatch_size_factor", settings.eval_minibatch_size_factor
            below = f"{count * samples / settings.minibatch_size / settings.train_clip_size:.3g}"
        return AsdfError(
            f"{self.device} has not enough memory to score {count_of(count, 'recording')} of "
            f"{samples:,} samples at once: {reason}. Set network.{name} below {below} (now "
            f"{now!r}), or free memory that other programs use."
        )


@contextmanager
def _in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Put `network` into evaluation mode for the block, and restore its mode in any case."""
    # For a small network, changing the mode takes a twentieth of the time of a score.
    if not _has_training_mode(network):
        yield
        return
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def _has_training_mode(module: nn.Module) -> bool:
    """Return whether `module` or one within it is in training mode."""
    return module.training or any(map(_has_training_mode, module.children()))
