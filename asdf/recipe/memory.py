"""How much of a GPU's memory a run takes, for a dry run on any machine.

With `front_end.weights` the network is built with them, as a run would; otherwise only its shapes
are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.checks import build_with_weights, describe_download, is_bundle
from asdf.recipe.corpora import scores_only
from asdf.recipe.folders import Folders
from asdf.recipe.network_trial import MAX_PARAMETERS, names_own_code, try_network
from asdf.settings.class_path import look_for_class
from asdf.settings.sections import Computing, Sections

if TYPE_CHECKING:
    from asdf.distributed.world import World
    from asdf.memory import Case, Gpu, TrainingMemory


def takes_memory(settings: Sections) -> bool:
    """Whether a chosen stage computes with the network."""
    return settings.recipe.execute_stage(1) or settings.recipe.execute_stage(2)


def describe_memory(settings: Sections, folders: Folders, processes: int) -> list[str]:
    """Describe what each process takes of its GPU, and what would help if that is more than it has.

    Raises:
        AsdfError: with `front_end.weights`: they cannot be read or do not fit, or the network
            cannot be built with them; the network or the loss fails on noise.
    """
    trains = settings.recipe.execute_stage(1) and not scores_only(settings)
    try:
        look_for_class(settings.network.network_class, folders.recipe, "network.network_class")
        # A dry run fetches nothing.
        download = describe_download(settings, folders) if trains else ""
        if download:
            return [f"not known: not all of the front end is in the hub's cache; {download}"]
        architecture = _front_end_architecture(settings, folders, trains)
    except AsdfError as error:
        if trains and settings.front_end.weights:
            raise
        return [f"not known: {error}"]
    from asdf.memory import Case, choose_format

    gpu = _smallest_gpu(settings.computing)
    dtype = choose_format(settings.computing, gpu)
    total = gpu.total if gpu else 0
    # On the CPU the same numbers are shown, for the GPU that the run may get.
    case = Case(settings, architecture, folders.recipe, processes, trains, dtype, total)
    try:
        return _describe_case(case, gpu)
    except Exception as error:  # a network may look at its numbers, which do not exist here
        # Or it fails in any case, as a run would.
        if trains:
            try_network(settings, architecture, folders.recipe)
        reason = str(error).partition("\n")[0]
        return [f"not known: {settings.network.network_class} cannot be outlined ({reason})"]


@contextmanager
def memory_computed_for_errors(
    settings: Sections, folders: Folders, world: World
) -> Iterator[None]:
    """Add what the run takes of its GPU, and what would fit, to the error of a step that does not.

    Raises:
        AsdfError: the block's `StepTooLarge`, with what `describe_memory` says.
    """
    from asdf.training.step_checks import StepTooLarge

    try:
        yield
    except StepTooLarge as error:
        if world.device.type != "cuda":
            raise
        try:
            lines = describe_memory(settings, folders, world.size)
        except AsdfError:
            # That is an addition, and must not hide what happened.
            raise error from None
        text = "\n".join(f"  {line}" for line in lines)
        raise AsdfError(f"{error}\nComputed for each process:\n{text}") from error


def _front_end_architecture(settings: Sections, folders: Folders, trains: bool) -> str:
    """Return the front end's architecture: that of the weights, which training opens as well."""
    weights = settings.front_end.weights
    if weights is None or not (trains or is_bundle(weights)):
        return settings.front_end.architecture
    from asdf.interchange import bundle_architecture
    from asdf.networks.build import self_contained

    if is_bundle(weights):  # a dry run fetches nothing
        return bundle_architecture(weights.partition(":")[2]).to_text()
    network = build_with_weights(settings, folders, folders.recipe)
    return self_contained(settings.front_end, network).architecture


def _smallest_gpu(computing: Computing) -> Gpu | None:
    """Return the GPU with the least memory among those that the run may use; None without GPUs."""
    import torch

    from asdf.memory import Gpu

    if not computing.use_gpu or not torch.cuda.is_available():
        return None
    count = torch.cuda.device_count()
    gpus = []
    for number in computing.gpu_ids or range(count):
        if number < count:
            properties = torch.cuda.get_device_properties(number)
            device = f"cuda:{number}"
            gpus.append(Gpu(f"{properties.name} ({device})", device, properties.total_memory))
    return min(gpus, key=lambda gpu: gpu.total, default=None)


def _describe_case(case: Case, gpu: Gpu | None) -> list[str]:
    from asdf.memory import OUTSIDE_ALLOCATOR, in_gibibytes, list_advice

    training = case.training()
    scoring = case.scoring()
    lines = []
    title = "scoring"
    peak = 0
    # None for a run that only scores.
    if training:
        if names_own_code(case.settings) and training.parameters <= MAX_PARAMETERS:
            try_network(case.settings, case.architecture, case.folder)
        lines += _describe_training(case, training, gpu)
        title = "validation"
        peak = training.peak
    batch = scoring.worst
    scoring_peak = case.scoring_peak(scoring, training)
    line = (
        f"{title}: {in_gibibytes(scoring_peak)} at its peak, in batches of {batch.utterances} x "
        f"{batch.samples:,} samples"
    )
    if not case.settings.computing.use_gpu:
        return [*lines, line]
    if gpu is None and case.settings.network.eval_minibatch_size_factor == "auto":
        line += "; larger ones on a large GPU, up to about a quarter of its memory"
    lines.append(line)
    total = max(peak, scoring_peak) + OUTSIDE_ALLOCATOR
    lines.append(
        f"of a GPU's memory: {in_gibibytes(total)}, of which about "
        f"{in_gibibytes(OUTSIDE_ALLOCATOR)} are for CUDA's context and the workspaces of cuDNN and "
        "NCCL"
    )
    if gpu is not None:
        lines.append(f"{gpu.name} has {in_gibibytes(gpu.total)}")
        if total > gpu.total:
            lines += list_advice(case, gpu, training, scoring_peak)
    return lines


def _describe_training(case: Case, training: TrainingMemory, gpu: Gpu | None) -> list[str]:
    from asdf.memory import describe_format, in_gibibytes

    held = [
        f"weights {in_gibibytes(training.weights)}",
        f"{_name_moments(case.settings)} {in_gibibytes(training.moments)}",
    ]
    if training.buckets:
        held.append(f"buckets of gradients {in_gibibytes(training.buckets)}")
    lines = [
        f"{training.parameters:,} parameters, {training.trained:,} of them trained",
        f"training: {in_gibibytes(training.peak)} at its peak, {describe_format(case, gpu)}",
        f"between two steps: {in_gibibytes(training.between)} ({', '.join(held)})",
    ]
    if case.settings.computing.shard_network and case.processes > 1:
        lines.append(
            "computing.shard_network is counted: weights and moments are this process's part, a "
            "step gathers a layer at a time, and scoring has a whole copy"
        )
    return lines


def _name_moments(settings: Sections) -> str:
    moments = f"moments of {settings.network.optimizer}"
    return moments if settings.network.ema_decay is None else f"{moments} and averages of weights"
