"""Checks of a training step before it computes, and the error if it does not fit into memory.

Each message says what to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.networks import fixed_samples
from asdf.networks.ssl_detector import SSLDetector
from asdf.scoring.computing import memory_errors_as
from asdf.settings.sections import Network
from asdf.training.terms import CLIPS, FEATURES, Term
from asdf.training.training_sections import TrainingSections


def step_memory_errors_as_messages(
    settings: TrainingSections, step: int, per_process: int, device: torch.device
) -> AbstractContextManager[None]:
    """Raise one message for a training step that does not fit into the device's memory.

    Args:
        step: Number of the step, counted from 1.
        per_process: Number of utterances that this process computes at once.

    Raises:
        AsdfError: the step does not fit; the message names the settings that make it smaller.
    """

    def describe(reason: str) -> AsdfError:
        return AsdfError(
            f"{device} does not have enough memory for step {step} of training, with {per_process} "
            f"utterances of {settings.network.train_clip_size:,} samples at once: {reason}. "
            f"{' '.join(_how_to_need_less(settings))}"
        )

    return memory_errors_as(describe)


def _how_to_need_less(settings: TrainingSections) -> Iterator[str]:
    network, front_end = settings.network, settings.front_end
    whole = network.global_minibatch_size
    name = "minibatch_size" if whole is None else "global_minibatch_size"
    yield (
        f"Lower network.{name} (now {whole or network.minibatch_size}) and raise "
        f"network.optimizer_step_interval (now {network.optimizer_step_interval}) by the same "
        "factor, which keeps the size of a step."
    )
    others = []
    if not front_end.gradient_checkpointing:
        others.append("front_end.gradient_checkpointing=True")
    if not settings.lora.rank:
        others.append("lora.rank=8, which trains few weights of the front end")
    others.append("network.train_clip_size, shorter")
    yield f"Or set {'; or '.join(others)}."
    yield "On a GPU, the same command with --dry-run tells how much memory a step takes."
    if settings.computing.use_gpu:
        yield "If other programs use the device as well, end them or choose another device."


def check_needs(terms: Sequence[Term], network: nn.Module, from_features: bool) -> None:
    """Let the network return the features that terms need, after checking that it can.

    Raises:
        UsageError: a term needs features of a network without one of ASDF's front ends, or
            waveforms although the minibatches are cached features.
    """
    for term in terms:
        if FEATURES in term.needs:
            if not isinstance(network, SSLDetector):
                raise UsageError(
                    f"the term {term.name!r} of the loss needs the features of a front end, and "
                    f"{type(network).__name__} does not say which of its layers form one. Derive "
                    "it from asdf.networks.SSLDetector, or compute the term from the embeddings."
                )
            network.gives_features = True
        if CLIPS in term.needs and from_features:
            raise UsageError(
                f"the term {term.name!r} of the loss needs waveforms: set "
                "front_end.cache_features = False."
            )


def check_clip_size(network: nn.Module, training: Network) -> None:
    """Check that the network takes clips of `network.train_clip_size` samples.

    Raises:
        UsageError: it only takes recordings of another length.
    """
    clip = training.train_clip_size
    samples = fixed_samples(network)
    if samples is not None and samples != clip:
        raise UsageError(
            f"network.train_clip_size is {clip}, but {training.network_class} takes "
            f"{samples} samples only. Set network.train_clip_size = {samples}, or build the "
            f"network for {clip} samples (see its docstring)."
        )
