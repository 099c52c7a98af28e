"""The network as training calls it: compiled, its gradients exchanged, its passes captured."""

from __future__ import annotations

import torch
from torch import nn

from asdf.data.training_plan import minibatch_per_process
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.compiling import compile_network
from asdf.training.exchange import exchange_gradients
from asdf.training.graphs import GraphedPasses
from asdf.training.objective import Objective
from asdf.training.passes import Passes
from asdf.training.precision import Precision


def prepare_passes(
    network: nn.Module,
    settings: Sections,
    world: World,
    *,
    objective: Objective,
    precision: Precision,
    scaler: torch.amp.GradScaler,
) -> Passes | GraphedPasses:
    """Return the passes over a minibatch of this rank, as `settings.computing` describes them.

    All ranks call this together.
    """
    whole_minibatch = minibatch_per_process(settings.network, world.size)
    model = network
    if settings.computing.compile:
        LOG.info("the network is compiled in the next step, which takes its time")
        model = compile_network(model, settings.computing.compile, whole_minibatch)
    model = exchange_gradients(model, world)
    passes = Passes(model, precision, scaler, objective)
    if not settings.computing.cuda_graphs:
        return passes
    if world.device.type != "cuda":
        LOG.info("CUDA graphs not used: no GPU")
        return passes
    return GraphedPasses(passes, whole_minibatch)


def check_clip_size(network: nn.Module, settings: Sections) -> None:
    """Check that the network takes clips of `network.train_clip_size` samples.

    Raises:
        UsageError: it takes recordings of another length only.
    """
    clip = settings.network.train_clip_size
    samples = fixed_samples(network)
    if samples is not None and samples != clip:
        raise UsageError(
            f"network.train_clip_size is {clip}, but {settings.network.network_class} takes "
            f"{samples} samples only. Set network.train_clip_size = {samples}, or build the "
            f"network for {clip} samples (see its docstring)."
        )
