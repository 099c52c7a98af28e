"""One optimiser step, on however many processes.

Invariants: the gradient of a step is that of the mean loss over its whole window of utterances, whoever computed which
part; the step is a function of the weights before it, the seed, its number and (for dropout) the rank.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from asdf.audio.rawboost_batch import Unboosted
from asdf.data.training_plan import Window, minibatch_per_process
from asdf.distributed.devices import check_one_process
from asdf.distributed.reading import fetch_later, send
from asdf.distributed.sharding import divides, local_part
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.networks import fixed_samples
from asdf.networks.freezing import freeze_front_end, frozen_in_epoch
from asdf.networks.split import FromFeatures
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.compiling import Compiled, check_compilable, compile_errors_as_usage_errors
from asdf.training.exchange import exchange_gradients, exchange_now, shard
from asdf.training.graphs import GraphedPasses
from asdf.training.instruments.clock import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    FORWARD,
    OPTIMISER,
    StepClock,
)
from asdf.training.last_step import LastStep
from asdf.training.loss import normaliser
from asdf.training.optimisers import build_optimiser, load_optimiser_state, set_learning_rate
from asdf.training.passes import Passes
from asdf.training.precision import choose_precision
from asdf.training.progress import Progress, seed_step
from asdf.trials.trial_list import TrialList

_SHOWN = 8


class Step:
    """The network with its optimiser and loss scale; `take` is one step.

    Args:
        network: on the world's device, with what is never trained frozen; one that is to be divided over the
            processes may still be on the CPU.
        from_features: the minibatches are cached features of a frozen front end instead of waveforms.

    Raises:
        UsageError: the network takes clips of another length, or nothing of it is trained.
    """

    def __init__(
        self,
        network: nn.Module,
        utterances: TrialList,
        settings: Sections,
        world: World,
        from_features: bool = False,
    ) -> None:
        _check_clip_size(network, settings)
        check_compilable(settings)
        check_one_process(settings.computing, world.size)
        self.network, self.utterances = network, utterances
        self.settings, self.world = settings, world
        self.labels = torch.from_numpy(utterances.labels).long()
        self._class_weights = torch.tensor(
            settings.network.class_weights, dtype=torch.float32, device=world.device
        )
        self.clock = StepClock(world.device)
        self.precision = choose_precision(
            settings.computing.precision, world.device, divides(settings.computing, world)
        )
        self.scaler = self.precision.scaler()
        self._sharded = shard(network, settings, world, self.precision.dtype)
        self.optimiser = build_optimiser(network, settings)
        self._trained = FromFeatures(network) if from_features else network
        self._model: nn.Module | None = None
        self._passes: Passes | GraphedPasses | None = None
        self._front_end_frozen = settings.front_end.frozen
        self.last = LastStep(self.scaler, world.device)

    def load_state(self, content: dict[str, Any]) -> None:
        """Optimiser and loss scale from the content of a checkpoint.

        Raises:
            AsdfError: the checkpoint is of another optimiser.
        """
        load_optimiser_state(self.optimiser, content["optimizer_state_dict"])
        # Empty when the run trained without a loss scale so far.
        if content.get("scaler_state_dict"):
            self.scaler.load_state_dict(content["scaler_state_dict"])
            self.last = LastStep(self.scaler, self.world.device)

    def whole_network(self) -> AbstractContextManager[nn.Module]:
        """The network for a block that is not training, such as scoring; all ranks enter it together.

        In the block a rank may compute with it whatever the others do.
        """
        return nullcontext(self.network) if self._sharded is None else self._sharded.whole()

    def begin_epoch(self, epochs: int) -> None:
        """Let the front end learn, or not, in the epoch after `epochs` whole ones, as the settings say."""
        frozen = frozen_in_epoch(self.settings.front_end, epochs)
        if frozen == self._front_end_frozen:
            return
        LOG.info("the front end %s", "is frozen" if frozen else "learns from here on")
        freeze_front_end(self.network, frozen)
        self._front_end_frozen = frozen
        # DistributedDataParallel takes stock of what learns when it is made. The old one must be gone before a new
        # one is made: it would still hear of gradients. What was captured computes the gradients of before.
        self._model = self._passes = None
        gc.collect()

    def take(
        self,
        window: Window,
        clips: Iterator[Tensor | Unboosted],
        progress: Progress,
        flags: list[float],
    ) -> list[float]:
        """Take the step on `window`, whose minibatches come next from `clips`, and note it in `progress`.

        Args:
            flags: numbers to be summed over the ranks on the way: one exchange per step serves all.

        Returns:
            The highest learning rate of the step, and the summed flags.

        Raises:
            AsdfError: the loss is not finite, on any rank, and nothing has been changed; or the gradient of the step
                before was not.
        """
        net = self.settings.network
        rate = set_learning_rate(self.optimiser, self.settings, progress, len(self.utterances))
        weight = normaliser(self.labels[window.utterances], net.class_weights)
        losses, fetched_loss = self._backward(window, clips, weight, progress.step)
        with self.clock.part(COMMUNICATION):
            # float32 losses cannot overflow a sum in float64: it is finite if they are.
            local_loss, *of_last = fetched_loss().tolist()
            sound = self.last.is_sound(of_last)
            loss, broken, unsound, *summed = self.world.sum(
                [local_loss, float(not math.isfinite(local_loss)), float(not sound), *flags]
            )
        if unsound:
            raise AsdfError(self.last.complaint())
        if broken:
            self._refuse(window, losses, progress)
        with self.clock.part(OPTIMISER):
            norm = self._clip_and_measure_gradient()
            self.scaler.step(self.optimiser)
            self.scaler.update()
            self.last.note(f"step {progress.step + 1} ({self._names(window)})", norm)
            self.optimiser.zero_grad(set_to_none=True)
        progress.step += 1
        progress.position = window.end
        progress.loss_sum += loss
        progress.weight_sum += weight
        return [rate, *summed]

    def check_last(self, numbers: Sequence[Tensor]) -> None:
        """Look at what is known of the last step only now.

        Args:
            numbers: `self.last.numbers()`, on the host.

        Raises:
            AsdfError: its gradient was not finite, so the network must not be saved.
        """
        sound = self.last.is_sound([float(number) for number in numbers])
        if self.world.sum([float(not sound)])[0]:
            raise AsdfError(self.last.complaint())

    def _clip_and_measure_gradient(self) -> Tensor | None:
        """Return a norm of the gradient, before clipping; None with fp16's scaler, which looks by itself."""
        limit = self.settings.network.gradient_clip_norm
        if limit is not None:
            self.scaler.unscale_(self.optimiser)
            return local_part(nn.utils.clip_grad_norm_(self.network.parameters(), limit))
        return None if self.scaler.is_enabled() else self._largest_gradient()

    def _largest_gradient(self) -> Tensor:
        """Return the largest absolute value in the gradient, as far as this rank holds it, or NaN."""
        groups = self.optimiser.param_groups
        gradients = [
            local_part(parameter.grad)
            for group in groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        # Of a small parameter that is divided a rank may have nothing, which has no largest value.
        parts = [gradient for gradient in gradients if gradient.numel()]
        return nn.utils.get_total_norm(parts or [self._class_weights.new_zeros(1)], math.inf)

    def _names(self, window: Window) -> str:
        names = [self.utterances.ids[index] for index in window.utterances[:_SHOWN].tolist()]
        more = len(window.utterances) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _backward(
        self, window: Window, clips: Iterator[Tensor | Unboosted], weight: float, step: int
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """Add up the window's gradient.

        Returns:
            The losses of this rank's utterances, and what fetches their sum in float64, with what there is to know of
            the step before.

        The sum is on its way to the host before the last backward pass begins. So the ranks agree on the step, and
        the host prepares the next one, while the GPU is still at work.
        """
        model, device = self._wrapped(), self.world.device
        passes = self._passes_of(model).for_window(window)
        parts: list[Tensor] = []
        for number, share in enumerate(window.shares, 1):
            last = number == len(window.shares)
            with self.clock.part(DATA):
                batch = next(clips)
            if isinstance(batch, Unboosted):
                # The device's work, and no waiting for data.
                with self.clock.part(FORWARD):
                    waveforms = batch.boosted()
            else:
                waveforms = batch
            # After reading: whatever a loader draws must not move the draws of the network.
            seed_step(self.settings.recipe.seed, step, number, self.world.rank)
            labels = send(self.labels[share.utterances], device)
            with (
                exchange_now(model, last),
                compile_errors_as_usage_errors(self.settings.computing.compile),
            ):
                with self.clock.part(FORWARD):
                    share_losses = passes.forward(waveforms, labels)[: share.counted]
                    parts.append(share_losses.detach())
                    if last:
                        losses = torch.cat(parts)
                        sums = [losses.double().sum(), *self.last.numbers()]
                        fetched_loss = fetch_later(torch.stack(sums))
                with self.clock.part(BACKWARD):
                    # DistributedDataParallel takes the mean over the ranks; the loss is a sum over all of them.
                    passes.backward(share_losses, self.world.size / weight)
        return losses, fetched_loss

    def _wrapped(self) -> nn.Module:
        """The network, compiled if it is to be, with its gradients exchanged between processes."""
        if self._model is None:
            self._model = self._trained
            if self.settings.computing.compile:
                LOG.info("the network is compiled in the next step, which takes its time")
                self._model = Compiled(
                    self._model, minibatch_per_process(self.settings.network, self.world.size)
                )
            self._model = exchange_gradients(self._model, self.world)
        return self._model

    def _passes_of(self, model: nn.Module) -> Passes | GraphedPasses:
        if self._passes is None:
            eager = Passes(model, self.precision, self.scaler, self._class_weights)
            self._passes = eager
            if self.settings.computing.cuda_graphs and self.world.device.type == "cuda":
                whole = minibatch_per_process(self.settings.network, self.world.size)
                self._passes = GraphedPasses(eager, whole)
            elif self.settings.computing.cuda_graphs:
                LOG.info("CUDA graphs not used: no GPU")
        return self._passes

    def _refuse(self, window: Window, losses: Tensor, progress: Progress) -> None:
        counted = torch.cat(
            [torch.from_numpy(share.utterances[: share.counted]) for share in window.shares]
        )
        wrong = counted[~torch.isfinite(losses).cpu()].tolist()
        gathered = self.world.agree(
            self.world.gather([self.utterances.ids[index] for index in wrong])
        )
        names = [name for part in gathered or [] for name in part]
        raise AsdfError(
            f"the loss of step {progress.step + 1} is not a finite number for {len(names)} utterances: "
            f"{', '.join(names[:_SHOWN])}. Nothing was saved from this step. Look at these recordings; if they are "
            "sound, lower network.initial_learning_rate, set network.gradient_clip_norm, or computing.precision='fp32'."
        )


def _check_clip_size(network: nn.Module, settings: Sections) -> None:
    clip = settings.network.train_clip_size
    samples = fixed_samples(network)
    if samples not in (None, clip):
        raise UsageError(
            f"network.train_clip_size is {clip}, but {settings.network.network_class} takes {samples} samples only. "
            f"Set network.train_clip_size = {samples}, or build the network for {clip} samples (see its docstring)."
        )
