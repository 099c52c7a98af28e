"""Checks of the network in a dry run: whether it works, and how much GPU memory it needs.

Invariant: a trial of a user's own code on noise fails with the same messages as stage 1 would, and
nothing is written. With `front_end.weights` the network is built with them, as in a run; otherwise
only with the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import scores_only
from asdf.recipe.run_folders import Folders
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import is_ours, look_for_class
from asdf.settings.sections import Computing, Sections
from asdf.settings.weights_names import BUNDLE

if TYPE_CHECKING:
    from asdf.distributed.world import World
    from asdf.memory import Case, Gpu, TrainingMemory
    from asdf.trials.trial_list import TrialList

# Larger networks are not computed: a dry run should take seconds, also on a login node.
_MAX_PARAMETERS = 50_000_000
_GIB = 2**30
_TINY = "tiny"
FindList = Callable[[], "TrialList | None"]


def _names_own_code(settings: Sections) -> bool:
    """Whether the network, a part of it, the loss or a head is a class of the user's own."""
    values = {
        "network.network_class": settings.network.network_class,
        "front_end.front_end_class": settings.front_end.front_end_class,
        "back_end.back_end_class": settings.back_end.back_end_class,
        "network.loss": settings.network.loss,
    }
    if settings.source.column is not None:
        values["source.head"] = settings.source.head
    named = [class_path_of(name, value) for name, value in values.items() if value is not None]
    named += settings.network.tasks
    return not all(is_ours(class_path) for class_path in named)


def _try_network(case: Case) -> None:
    """Build the network with random weights; run it, the loss and the heads of tasks on noise,
    and check the results.

    Raises:
        AsdfError: as `build_network`, `check_outputs`, `build_loss` and `Task.try_on_noise`.
    """
    import torch

    from asdf.networks.build import build_network
    from asdf.networks.output_check import check_outputs
    from asdf.training.losses.loss_building import (
        build_loss,
        find_loss_class,
        list_of_two,
        try_in_training,
    )
    from asdf.training.task import find_tasks

    front_end = replace(case.settings.front_end, architecture=case.architecture, weights=None)
    tried = replace(case.settings, front_end=front_end)
    folder = case.folder
    with torch.random.fork_rng(devices=[]):
        network = build_network(tried, folder)
        check_outputs(network, tried.network, torch.device("cpu"))
        utterances = list_of_two(find_loss_class(tried, folder))
        loss = build_loss(network, utterances, tried, folder)
        try_in_training(network, loss, tried.network)
        find_tasks(tried, folder).requested().try_on_noise(network)


def _try_step(case: Case, parameters: int, utterances: FindList) -> None:
    """Take training steps on noise, if a class is the user's own or minibatches are padded.

    Large networks of ASDF are replaced by small ones; large networks of the user's are not tried.

    Raises:
        AsdfError: as `try_training`.
    """
    settings = case.settings
    method = class_path_of("network.training_step", settings.network.training_step)
    optimiser = class_path_of("network.optimizer", settings.network.optimizer)
    has_own = not is_ours(method) or not (is_ours(optimiser) or optimiser.startswith("torch."))
    if not has_own and settings.lengths.minibatch_s is None:
        return
    is_large = parameters > _MAX_PARAMETERS
    if is_large and _names_own_code(settings):
        return
    from asdf.recipe.training_trial import try_training

    architecture = _TINY if is_large else case.architecture
    try_training(settings, architecture, case.folder, utterances())


def describe_memory(
    settings: Sections,
    folders: Folders,
    processes: int,
    utterances: FindList = lambda: None,
) -> list[str]:
    """Describe the GPU memory that each process needs, with advice if the GPU has less.

    Args:
        utterances: Function that returns the training list for trials of the user's classes, or
            None if it is unknown.

    Raises:
        UsageError: `network.initial_network` differs from the network in the settings.
        AsdfError: the weights of `front_end.weights` or an initial network cannot be read, do not
            fit, or the network cannot be built with them; or the network or the loss fails on
            noise.
    """
    trains = settings.recipe.execute_stage(1) and not scores_only(settings.network)
    named = settings.front_end.weights or settings.network.initial_network
    try:
        look_for_class(settings.network.network_class, folders.recipe, "network.network_class")
        # A dry run downloads nothing.
        download = folders.describe_download(named) if trains else ""
        if download:
            return [f"not known: not all of the weights are in the hub's cache; {download}"]
        architecture = _front_end_architecture(settings, folders, trains)
    except AsdfError as error:
        if trains and named:
            raise
        return [f"not known: {error}"]
    from asdf.memory import Case, choose_format

    gpu = _smallest_gpu(settings.computing)
    dtype = choose_format(settings.computing, gpu)
    total = gpu.total if gpu else 0
    # On a CPU the same numbers are shown, for the GPU on which the run may be started.
    case = Case(settings, architecture, folders.recipe, processes, trains, dtype, total)
    try:
        return _describe_case(case, gpu, utterances)
    except Exception as error:  # a network may look at its numbers, which do not exist here
        # Or it fails anyway, as a run would.
        if trains:
            _try_network(case)
            _try_step(case, 0, utterances)
        reason = str(error).partition("\n")[0]
        return [f"not known: {settings.network.network_class} cannot be outlined ({reason})"]


@contextmanager
def memory_computed_for_errors(
    settings: Sections,
    folders: Folders,
    world: World,
) -> Iterator[None]:
    """Add the run's GPU memory, and what would fit, to the error of a step that does not.

    Raises:
        AsdfError: the `StepTooLarge` of the block, with the text of `describe_memory`.
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
            # The addition must not hide the original error.
            raise error from None
        text = "\n".join(f"  {line}" for line in lines)
        raise AsdfError(f"{error}\nComputed for each process:\n{text}") from error


def _front_end_architecture(settings: Sections, folders: Folders, trains: bool) -> str:
    """Return the front end's architecture, from the weights if training opens them too."""
    weights = settings.front_end.weights or settings.network.initial_network
    is_bundle = weights is not None and weights.startswith(BUNDLE)
    if weights is None or not (trains or is_bundle):
        return settings.front_end.architecture
    from asdf.interchange import bundle_architecture
    from asdf.networks.build import self_contained

    if is_bundle:  # a dry run fetches nothing
        return bundle_architecture(weights.partition(":")[2]).to_text()
    network = folders.build_network(settings)
    return self_contained(settings.front_end, network).architecture


def _smallest_gpu(computing: Computing) -> Gpu | None:
    """Return the GPU with the least memory among those the run may use; None without GPUs."""
    import torch

    from asdf.memory import Gpu

    if not computing.use_gpu or not torch.cuda.is_available():
        return None
    count = torch.cuda.device_count()
    gpus = []
    for number in computing.gpu_ids or range(count):
        # A login node may have fewer GPUs than the machine of the run.
        if number < count:
            properties = torch.cuda.get_device_properties(number)
            device = f"cuda:{number}"
            gpus.append(Gpu(f"{properties.name} ({device})", device, properties.total_memory))
    return min(gpus, key=lambda gpu: gpu.total, default=None)


def _describe_case(case: Case, gpu: Gpu | None, utterances: FindList) -> list[str]:
    from asdf.memory import (
        describe_largest,
        in_gibibytes,
        scoring_memory,
        scoring_peak,
        training_memory,
    )

    training = training_memory(case) if case.trains else None
    scoring = scoring_memory(case)
    lines = []
    title = "scoring"
    # None for a run that only scores.
    if training:
        if _names_own_code(case.settings) and training.parameters <= _MAX_PARAMETERS:
            _try_network(case)
        _try_step(case, training.parameters, utterances)
        lines += _describe_training(case, training, gpu)
        if case.settings.computing.gpu_memory_gib is not None:
            lines.append(describe_largest(case, case.settings.computing.gpu_memory_gib * _GIB))
        title = "validation"
    batch = scoring.worst
    peak = scoring_peak(case, scoring, training)
    line = (
        f"{title}: {in_gibibytes(peak)} at its peak, in batches of {batch.utterances} x "
        f"{batch.samples:,} samples"
    )
    if not case.settings.computing.use_gpu:
        return [*lines, line]
    if gpu is None and case.settings.network.eval_minibatch_size_factor == "auto":
        line += "; larger ones on a large GPU, up to about a quarter of its memory"
    return [*lines, line, *_describe_total(case, gpu, training, peak)]


def _describe_total(
    case: Case,
    gpu: Gpu | None,
    training: TrainingMemory | None,
    scoring: int,
) -> list[str]:
    """Describe the GPU memory of the run, with advice if it is too much."""
    from asdf.memory import OUTSIDE_ALLOCATOR, in_gibibytes, list_advice

    total = max(training.peak if training else 0, scoring) + OUTSIDE_ALLOCATOR
    lines = [
        f"of a GPU's memory: {in_gibibytes(total)}, of which about "
        f"{in_gibibytes(OUTSIDE_ALLOCATOR)} are for CUDA's context and the workspaces of cuDNN and "
        "NCCL"
    ]
    if gpu is not None:
        lines.append(f"{gpu.name} has {in_gibibytes(gpu.total)}")
        if total > gpu.total:
            lines += list_advice(case, gpu, training, scoring)
    return lines


def _describe_training(case: Case, training: TrainingMemory, gpu: Gpu | None) -> list[str]:
    from asdf.memory import describe_format, in_gibibytes

    moments = f"moments of {case.settings.network.optimizer}"
    if case.settings.network.ema_decay is not None:
        moments += " and averages of weights"
    held = [
        f"weights {in_gibibytes(training.weights)}",
        f"{moments} {in_gibibytes(training.moments)}",
    ]
    if training.buckets:
        held.append(f"buckets of gradients {in_gibibytes(training.buckets)}")
    lines = [
        f"{training.parameters:,} parameters, {training.trained:,} of them trained",
        f"training: {in_gibibytes(training.peak)} at its peak, {describe_format(case, gpu)}",
        f"between two steps: {in_gibibytes(training.between)} ({', '.join(held)})",
    ]
    if case.divides:
        lines.append(
            "computing.shard_network is included: weights and moments are this process's part, a "
            "step gathers a layer at a time, and scoring needs a whole copy"
        )
    return lines
