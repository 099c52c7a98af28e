"""Building the loss that `network.loss` names, and testing it on noise.

Invariants: nothing in the run changes except what is logged: no random state, mode or buffer. Every
parameter that still requires a gradient gets one in each step; parameters that the loss does not
depend on, such as the network's last layer if the logits are cosines, are frozen.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import attach_loss
from asdf.networks.output_check import compute_on_noise, left_unchanged
from asdf.runs.log import LOG
from asdf.runs.seeds import derived_seed
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Network, Sections
from asdf.text import and_more
from asdf.training.losses.loss import LikelihoodRatio, Loss, Targets
from asdf.trials.trial_list import TrialList, values_at

SETTING = "network.loss"
_SHOWN = 4
_ADVICE = (
    "It has to return a finite number per utterance; see asdf.training.losses.Loss. This was seen "
    "on noise, before the first step; nothing was written."
)


def find_loss_class(settings: Sections, folder: Path | None) -> type[Loss]:
    """Return the class of the loss.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist, does not derive from `Loss`, lacks a method, or does
            not support mixup for mixed clips.
        AsdfError: importing its module fails.
    """
    path = class_path_of(SETTING, settings.network.loss)
    kind = find_class(path, folder, SETTING, Loss)  # type: ignore[type-abstract]
    mixed = settings.augmentation.mixup_probability
    if kind.is_joint and mixed:
        raise UsageError(
            f"augmentation.mixup_probability = {mixed}: {SETTING} = {settings.network.loss!r} "
            "compares utterances with each other. Set augmentation.mixup_probability = 0, or "
            "choose another loss."
        )
    # Settings allow likelihood ratios of plain cross-entropy alone.
    return LikelihoodRatio if settings.network.score == "llr" else kind


def build_loss(
    network: nn.Module, utterances: TrialList, settings: Sections, folder: Path | None = None
) -> Loss:
    """Build the loss; one with parameters or scored logits becomes a part of `network`.

    Raises:
        UsageError: as in `find_loss_class`, or the training list lacks a column that it needs.
        AsdfError: its constructor fails, or its values are not finite numbers, one per utterance.
    """
    kind = find_loss_class(settings, folder)
    missing = [name for name in kind.columns if name not in utterances.columns]
    if missing:
        raise UsageError(
            f"{SETTING}: {kind.__qualname__} needs the column {missing[0]!r} of the training "
            f"list, which has {', '.join(utterances.columns) or 'no columns'}."
        )
    parameter = next(network.parameters())
    is_graphed = settings.computing.cuda_graphs is True
    # Its steps have two passes, which may draw other numbers; columns are no tensors.
    if kind.is_joint and settings.computing.compile:
        setting = "computing.compile"
    else:
        setting = "computing.cuda_graphs" if is_graphed and (kind.is_joint or kind.columns) else ""
    if setting:
        raise UsageError(
            f"{SETTING} = {settings.network.loss!r} cannot be combined with {setting}. Set it to "
            "False, or choose another loss."
        )
    takes_embeddings = kind.needs_embeddings or kind.is_joint
    if is_ours(f"{kind.__module__}.") and not takes_embeddings:
        form = torch.promote_types(parameter.dtype, torch.float32)
        loss = _construct(kind, settings, 0, utterances).to(parameter.device, form)
    else:
        with left_unchanged(network):
            loss = _build_on_noise(kind, network, utterances, settings, takes_embeddings)
    if loss.gives_logits or loss.state_dict():
        attach_loss(network, loss)
    return loss


def _build_on_noise(
    kind: type[Loss],
    network: nn.Module,
    utterances: TrialList,
    settings: Sections,
    takes_embeddings: bool,
) -> Loss:
    """Return the loss, tried on noise; parameters that it does not depend on are frozen."""
    training = settings.network
    parameter = next(network.parameters())
    embeddings_BE, logits_B2 = compute_on_noise(network, training, parameter.device)
    outputs = embeddings_BE if takes_embeddings else logits_B2
    if takes_embeddings and not (isinstance(outputs, Tensor) and outputs.dim() == 2):
        raise UsageError(
            f"{SETTING} = {training.loss!r} needs embeddings (batch, numbers), which "
            f"{training.network_class} does not return first. Choose another loss."
        )
    dimension = outputs.shape[1] if takes_embeddings else 0
    form = torch.promote_types(parameter.dtype, torch.float32)
    loss = _construct(kind, settings, dimension, utterances).to(parameter.device, form)
    values_B = _try_on(loss, embeddings_BE, logits_B2, utterances, training.loss)
    used = _inputs_of(values_B)
    # Behind a frozen front end, the loss may be the only trained part.
    if isinstance(outputs, Tensor) and outputs.requires_grad and not used & _inputs_of(outputs):
        raise _describe_mistake(
            training.loss,
            "does not depend on the network: no gradient reaches it. Check for .detach(), .item() "
            "and torch.no_grad()",
        )
    # Only those behind the logits: others, such as a vector for masked frames, stay trained.
    unused = _inputs_of(logits_B2) - used
    trained = [(name, each) for name, each in network.named_parameters() if each.requires_grad]
    frozen = [name for name, each in trained if id(each) in unused]
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    if frozen:
        LOG.info("not trained, as the loss does not depend on them: %s", and_more(frozen, _SHOWN))
    return loss


def try_in_training(network: nn.Module, loss: Loss, training: Network) -> None:
    """Compute the loss of two clips of noise in `train()` mode, and its gradient.

    Networks may compute differently in this mode than in scoring.

    Raises:
        AsdfError: the network or the loss fails, or gives values that are not finite.
    """
    columns = {name: [next(iter(loss.values.get(name, ())), "-")] * 2 for name in loss.columns}
    targets = Targets(torch.zeros(2, dtype=torch.long), columns)
    with left_unchanged(network):
        outputs = compute_on_noise(network, training, next(network.parameters()).device, True)
        with UserErrors(f"{SETTING}: {training.loss} fails on the outputs of training", _ADVICE):
            values_B = loss.of_minibatch(outputs, targets)
        _check_numbers(training.loss, "per_utterance in training", values_B, (2,))
        with UserErrors(f"{training.network_class}: the gradient on noise fails in training"):
            values_B.sum().backward()
        network.zero_grad(set_to_none=True)


def list_of_two(kind: type[Loss]) -> TrialList:
    """Return a list of a spoof and a bona fide utterance with the columns that the loss needs.

    It serves to test the loss before the training list is known.
    """
    columns = {name: ["A01", "-"] for name in kind.columns}
    return TrialList(
        ["spoof", "bona fide"], np.arange(2, dtype=np.int8), columns=columns, name="trial"
    )


def _construct(kind: type[Loss], settings: Sections, dimension: int, utterances: TrialList) -> Loss:
    """Return the loss, whose random weights depend only on the seed.

    Args:
        utterances: Training list, from which it gets the values of its columns.
    """
    values = {}
    # Sorting the values of millions of utterances takes seconds, and few losses need them.
    if "values" in inspect.signature(kind).parameters:
        values = {name: sorted(set(utterances.columns[name])) for name in kind.columns}
    failed = f"{SETTING}: {settings.network.loss}(settings, {dimension}) failed"
    advice = "See asdf.training.losses.Loss for the arguments of its constructor."
    with torch.random.fork_rng(devices=[]), UserErrors(failed, advice):
        torch.manual_seed(derived_seed(settings.recipe.seed, "loss"))
        return kind.of_values(settings, dimension, values)


def _try_on(
    loss: Loss, embeddings_BE: Tensor, logits_B2: Tensor, utterances: TrialList, name: str
) -> Tensor:
    """Return the values for two utterances of noise, with the targets of a spoof and a bona fide.

    Raises:
        AsdfError: the loss fails, or its results do not have the required form.
    """
    labels = np.arange(2)
    # The first of each label, or of all if a list has only one label.
    indices = np.argmax(utterances.labels[None, :] == labels[:, None], axis=1)
    columns = {name: values_at(utterances.columns[name], indices) for name in loss.columns}
    labels_B = torch.from_numpy(labels).to(logits_B2.device)
    with UserErrors(f"{SETTING}: {name} fails", _ADVICE):
        scored_B2 = loss.logits(embeddings_BE, logits_B2)
        values_B = loss.per_utterance(embeddings_BE, scored_B2, labels_B, columns)
    _check_numbers(name, "logits", scored_B2, (2, 2))
    _check_numbers(name, "per_utterance", values_B, (2,))
    if not values_B.requires_grad:
        raise _describe_mistake(name, "depends on nothing that is trained")
    return values_B


def _check_numbers(name: str, method: str, result: Any, shape: tuple[int, ...]) -> None:
    mistake = ""
    if not isinstance(result, Tensor):
        mistake = f"a {type(result).__name__} as {method}"
    elif tuple(result.shape) != shape:
        mistake = f"a tensor {tuple(result.shape)} as {method} of 2 utterances, not {shape}"
    elif not result.isfinite().all():
        numbers = ", ".join(f"{number:.4g}" for number in result.flatten().tolist())
        mistake = f"{numbers} as {method}, which are not all finite"
    if mistake:
        raise _describe_mistake(name, f"gives {mistake}")


def _describe_mistake(name: str, what: str) -> AsdfError:
    return AsdfError(f"{SETTING}: {name} {what}. {_ADVICE}")


def _inputs_of(results: Tensor) -> set[int]:
    """Return the ids of the parameters that a tensor is computed from."""
    # Follow the graph without running it: a backward pass of a large network is expensive.
    seen = set()
    inputs = set()
    waiting = [results.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            inputs.add(id(node.variable))
        waiting.extend(next_node for next_node, _ in node.next_functions)
    return inputs
