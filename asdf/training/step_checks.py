"""Checks of a training step before it computes, and the error if it does not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import nn

from asdf.data.batches import LENGTHS
from asdf.errors import AsdfError, UsageError
from asdf.networks.back_ends.back_end import BackEnd, masks_no_padding
from asdf.networks.interface import fixed_samples, further_inputs, input_columns
from asdf.networks.ssl_detector import SSLDetector
from asdf.scoring.computing import memory_errors_as
from asdf.settings.sections import Network, Sections
from asdf.training.terms import CLIPS, FEATURES, Term
from asdf.trials.trial_list import TrialList


def inputs_in_training(network: nn.Module, settings: Sections) -> tuple[str, ...]:
    """Return the names of the network's inputs besides waveforms."""
    lengths = settings.lengths
    names = further_inputs(network)
    # Even without masks, our front ends need the lengths to normalise recordings.
    knows_lengths = lengths.masks or isinstance(network, SSLDetector)
    if lengths.minibatch_s is None or not knows_lengths:
        return tuple(name for name in names if name != LENGTHS)
    return names


def check_inputs(
    network: nn.Module, utterances: TrialList, settings: Sections, from_features: bool
) -> None:
    """Check that training can provide the network's inputs besides waveforms.

    Raises:
        UsageError: the training list lacks a column; minibatches are cached features or mixed, so
            inputs would not belong to them; or the network does not mask padding.
    """
    if settings.lengths.minibatch_s is not None:
        name = settings.network.network_class
        masks = settings.lengths.masks
        samples = fixed_samples(network)
        if samples is not None:
            raise UsageError(
                f"lengths.minibatch_s: {name} takes clips of {samples} samples only. Set "
                "lengths.minibatch_s = None."
            )
        if isinstance(network, SSLDetector):
            network.masks_padding = masks
            if masks and type(network.back_end).of_padded is BackEnd.of_padded:
                raise masks_no_padding(type(network.back_end))
        if masks and LENGTHS not in further_inputs(network):
            raise UsageError(
                f"lengths.masks = True: {name} does not take the lengths of its recordings. Set "
                "lengths.masks = False: padding is silence to the network then. A class of your "
                "own takes them by further_inputs = ('lengths',) and forward(waveforms_BT, "
                "lengths=None)."
            )
    names = inputs_in_training(network, settings)
    if not names:
        return
    taken = f"{settings.network.network_class} takes {', '.join(names)} (further_inputs)"
    if from_features:
        raise UsageError(f"{taken}: set front_end.cache_features = False.")
    if settings.augmentation.mixup_probability:
        raise UsageError(f"{taken}, which cannot be mixed: set augmentation.mixup_probability = 0.")
    for column in input_columns(network):
        if column not in utterances.columns:
            raise UsageError(
                f"{settings.network.network_class} takes the column {column!r} of the training "
                f"list (input_columns), which has {', '.join(utterances.columns) or 'no columns'}."
            )


def step_memory_errors_as_messages(
    settings: Sections, step: int, per_process: int, device: torch.device
) -> AbstractContextManager[None]:
    """Raise one message for a training step that does not fit into the device's memory.

    Args:
        step: Number of the step, counted from 1.
        per_process: Number of utterances that this process computes at once.

    Raises:
        AsdfError: the step does not fit; the message names the settings that make it smaller.
    """

    def describe(reason: str) -> AsdfError:
        network, front_end = settings.network, settings.front_end
        whole = network.global_minibatch_size
        name = "minibatch_size" if whole is None else "global_minibatch_size"
        others = []
        if not front_end.gradient_checkpointing:
            others.append("front_end.gradient_checkpointing=True")
        if not settings.lora.rank:
            others.append("lora.rank=8, which trains few weights of the front end")
        others.append("network.train_clip_size, shorter")
        end = ""
        if settings.computing.use_gpu:
            end = " If other programs use the device as well, end them or choose another device."
        return AsdfError(
            f"{device} does not have enough memory for step {step} of training, with {per_process} "
            f"utterances of {network.train_clip_size:,} samples at once: {reason}. Lower "
            f"network.{name} (now {whole or network.minibatch_size}) and raise "
            f"network.optimizer_step_interval (now {network.optimizer_step_interval}) by the same "
            f"factor, which keeps the size of a step. Or set {'; or '.join(others)}. On a GPU, the "
            f"same command with --dry-run tells how much memory a step takes.{end}"
        )

    return memory_errors_as(describe)


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
