"""Inputs that training passes to the network besides waveforms, and their incompatibilities."""

from __future__ import annotations

from torch import nn

from asdf.data.batches import LENGTHS
from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import BackEnd, masks_no_padding
from asdf.networks.interface import fixed_samples, further_inputs, input_columns
from asdf.networks.ssl_detector import SSLDetector
from asdf.training.training_sections import TrainingSections
from asdf.trials.trial_list import TrialList


def inputs_in_training(network: nn.Module, settings: TrainingSections) -> tuple[str, ...]:
    """Return the names of the network's inputs besides waveforms."""
    lengths = settings.lengths
    names = further_inputs(network)
    # Even without masks, our front ends need the lengths to normalise recordings.
    knows_lengths = lengths.masks or isinstance(network, SSLDetector)
    if lengths.minibatch_s is None or not knows_lengths:
        return tuple(name for name in names if name != LENGTHS)
    return names


def check_inputs(
    network: nn.Module, utterances: TrialList, settings: TrainingSections, from_features: bool
) -> None:
    """Check that training can provide the network's inputs besides waveforms.

    Raises:
        UsageError: the training list lacks a column; minibatches are cached features or mixed, so
            inputs would not belong to them; or the network does not mask padding.
    """
    if settings.lengths.minibatch_s is not None:
        _check_padding(network, settings)
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


def _check_padding(network: nn.Module, settings: TrainingSections) -> None:
    """Check that the network takes recordings of varying length, as `lengths.masks` requires.

    Raises:
        UsageError: it takes one length, or does not mask padding.
    """
    name = settings.network.network_class
    samples = fixed_samples(network)
    if samples is not None:
        raise UsageError(
            f"lengths.minibatch_s: {name} takes clips of {samples} samples only. Set "
            "lengths.minibatch_s = None."
        )
    if isinstance(network, SSLDetector):
        network.masks_padding = settings.lengths.masks
        if settings.lengths.masks and type(network.back_end).of_padded is BackEnd.of_padded:
            raise masks_no_padding(type(network.back_end))
    if settings.lengths.masks and LENGTHS not in further_inputs(network):
        raise UsageError(
            f"lengths.masks = True: {name} does not take the lengths of its recordings. Set "
            "lengths.masks = False: padding is silence to the network then. A class of your own "
            "takes them by further_inputs = ('lengths',) and forward(waveforms_BT, lengths=None)."
        )
