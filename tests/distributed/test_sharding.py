"""A network divided over processes learns what a whole one learns, and saves the same files."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import torch
import torch.distributed as dist

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import Batch
from asdf.data.clip_frames import ClipFrames
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.outlines import build_on_main
from asdf.distributed.sharding import is_sharded
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks import build_network, frame_hop
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import Sections, assign
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList
from tests import small_networks
from tests.distributed.test_exactness import assert_equal_runs
from tests.distributed.worlds import compute_in_worlds

# Worlds of two and of three processes that train: a minute.
pytestmark = pytest.mark.slow

# Utterances: 6 per minibatch of all processes, so an epoch's last one is short, and uneven for two.
SIZE = 15
SAMPLES = 4000
WAVLM = (
    "{'conv_layers': ((16, 10, 5), (16, 8, 8), (16, 8, 8)), 'extractor_mode': 'group_norm', "
    "'conv_bias': False, "
    "'dimension': 24, 'layers': 3, 'heads': 2, 'feed_forward': 48, 'layer_norm_first': False, "
    "'pos_conv_kernel': 8, "
    "'pos_conv_groups': 2, 'relative_positions': (8, 20)}"
)
COMMON: dict[str, object] = {
    "front_end.architecture": WAVLM.replace("(8, 20)", "None"),
    "front_end.weights": None,
    "network.network_class": "small_networks.FrontEnded",
    "network.train_clip_size": SAMPLES,
    "network.optimizer": "sgd",
    "network.momentum": 0.9,
    "network.schedule": "constant",
    "network.initial_learning_rate": 0.01,
    "network.global_minibatch_size": 6,
    "network.class_weights": (0.1, 0.9),
}
# What draws no random numbers in a step: then one process learns the same.
DRAWN_NOWHERE: dict[str, dict[str, object]] = {
    "accumulation": {
        "network.optimizer_step_interval": 2,
    },
    "clipping, weighted layers, Adam": {
        "front_end.layer": "weighted",
        "network.gradient_clip_norm": 0.01,
        "network.optimizer": "adam",
        "network.initial_learning_rate": 1e-4,
        "network.ema_decay": 0.7,
    },
    "a front end that learns later, WavLM, unused layers": {
        "front_end.architecture": WAVLM,
        "front_end.layer": 2,
        "front_end.unfreeze_after_epochs": 1,
    },
    # WavLM's attention joins three maps, and computes with their weights; its first layer is
    # gathered with the rest of the network. A rank of 1 leaves some processes nothing of a factor.
    "LoRA that learns later, in WavLM's joined attention": {
        "front_end.architecture": WAVLM,
        "front_end.unfreeze_after_epochs": 1,
        "lora.rank": 1,
    },
    "LoRA, norms, a layer; clipping, averages": {
        "lora.rank": 3,
        "front_end.trained_parts": ("norms", "layers:2"),
        "network.optimizer_step_interval": 2,
        "network.gradient_clip_norm": 1.0,
        "network.ema_decay": 0.7,
    },
    # The clips of some spoofs have no spoofed frame.
    "heads for frames and for sources": {
        "network.network_class": "asdf.networks.SSL_ASP",
        "localisation.enabled": True,
        "source.column": "attack",
        "source.head": "cosine",
    },
}
DRAWN: dict[str, dict[str, object]] = {
    "masks, dropout, recomputed layers": {
        "front_end.time_mask_proportion": 0.3,
        "front_end.channel_mask_proportion": 0.2,
        "front_end.dropout": 0.2,
        "front_end.gradient_checkpointing": True,
        "network.optimizer_step_interval": 2,
    },
    "LoRA with dropout, recomputed layers": {
        "lora.rank": 2,
        "lora.dropout": 0.3,
        "front_end.gradient_checkpointing": True,
    },
}


# Every moment that there is, and a front end that learns from the second epoch on.
SWITCHED: dict[str, object] = {
    "network.ema_decay": 0.7,
    "network.optimizer": "adam",
    "network.initial_learning_rate": 1e-4,
    "front_end.unfreeze_after_epochs": 1,
}
# Weights and norms in 16 bits, of a layer that rests and of one that learns.
BF16: dict[str, object] = {
    "lora.rank": 2,
    "front_end.trained_parts": ("layers:1",),
}
UPDATED = "LoRA, norms, a layer; clipping, averages"
LENGTHS = [4100, 9000, 4500, 8000, 5000, 7000, 6000]


def settings_of(case: dict[str, object], sharded: bool) -> Sections:
    settings = Sections()
    settings.computing.shard_network = sharded
    settings.computing.network_dataloader_workers = 0
    assign(settings, {**COMMON, **case})
    return settings


def make_step(
    case: dict[str, object],
    world: World,
    sharded: bool,
    start: dict[str, Any] | None = None,
    outlined: bool = False,
) -> Step:
    """A step in float64, unless in bf16: in float32 rounding differences grow with every step."""
    settings = settings_of(case, sharded)
    torch.manual_seed(0)
    build = partial(build_network, settings, Path(small_networks.__file__).parent)
    network = build_on_main(build, world) if outlined else build()
    if settings.computing.precision != "bf16":
        network = network.double()
    if world.size > 1:
        network = synchronise_batch_norm(network)
    labels = np.arange(SIZE, dtype=np.int8) % 2
    attacks = ["-" if label else f"A0{i % 3}" for i, label in enumerate(labels)]
    parts = ["-" if label else "0.1-0.2" for label in labels]
    columns = {"attack": attacks, "spoofed_s": parts}
    names = [f"{i}.wav" for i in range(SIZE)]
    utterances = TrialList(names, labels, columns=columns, name="noise")
    frames = None
    if settings.localisation.enabled:
        hop = frame_hop(network)
        assert hop is not None
        frames = ClipFrames(utterances, np.full(SIZE, 2 * SAMPLES), settings, hop)
    step = Step(network.train(), utterances, settings, world, frames=frames)
    if start is not None:
        # Training would change the tensors that it got.
        checkpoint = NetworkFile.from_content(copy.deepcopy(start), Path("start"))
        fill_network(step.network, checkpoint)
        step.load_state(checkpoint)
    return step


def train(
    case: dict[str, object],
    world: World,
    sharded: bool = False,
    start: dict[str, Any] | None = None,
    epochs: int = 2,
    outlined: bool = False,
) -> dict[str, Any]:
    """Train on noise up to n epochs; return the main rank's checkpoint with the last loss."""
    step = make_step(case, world, sharded, start, outlined)
    progress = Progress.from_state(start["progress"]) if start else Progress()
    settings = step.settings
    plan = TrainingPlan(
        SIZE,
        minibatch_per_process(settings.network, world.size),
        settings.network.optimizer_step_interval,
        world.size,
        world.rank,
        synchronised=True,
    )
    clips = 0.1 * torch.randn(SIZE, SAMPLES, generator=torch.Generator().manual_seed(1))
    clips = clips.to(next(step.network.parameters()).dtype)
    for epoch in range(progress.epochs + 1, epochs + 1):
        progress.begin_epoch()
        step.begin_epoch(epoch - 1)
        for window in plan.windows(epoch):
            local = (Batch(clips[share.utterances]) for share in window.shares)
            step.take(window, local, progress, [])
        progress.epochs = epoch
    world.broadcast_buffers(step.network)
    parts = (step.network, step.optimiser, step.scaler, progress, settings)
    checkpoint = collect_checkpoint(*parts, world, HostCopies(), step.average)
    content = checkpoint.content() if checkpoint else {}
    return {**content, "loss_sum": progress.loss_sum}


def score(world: World, folder: Path, sharded: bool, start: dict[str, Any]) -> list[bytes]:
    """Score lists of two and of seven recordings with a checkpoint; nothing on other ranks."""
    step = make_step({**SWITCHED, "network.minibatch_size": 1}, world, sharded, start)
    scores = []
    with step.whole_network() as network:
        for size in (2, 7):
            names = [f"{i}.wav" for i in range(size)]
            utterances = TrialList(
                names, np.arange(size, dtype=np.int8) % 2, name="noise", folder=folder
            )
            lengths = np.array(LENGTHS[:size])
            scored = score_list(
                build_list_scorer(network.float(), step.settings, world),
                utterances,
                lengths,
                step.settings,
                world,
                StopRequest(),
            )
            scores.append(b"" if scored is None else scored.tobytes())
    return scores


def refused_gradient(world: World) -> str:
    """Return what a step reports after one whose gradient was not finite on one rank."""
    step = make_step({}, world, sharded=True)
    plan = TrainingPlan(SIZE, 2, 1, world.size, world.rank, synchronised=True)
    output = step.network.output.weight
    try:
        for window in plan.windows(1):
            ones = (torch.ones(len(share.utterances), SAMPLES) for share in window.shares)
            local = (Batch(clip.double()) for clip in ones)
            if not step.last.numbers():
                hook = output.register_post_accumulate_grad_hook(spoil)
            step.take(window, local, Progress(), [])
            hook.remove()
    except AsdfError as error:
        return str(error)
    return ""


def spoil(parameter: torch.Tensor) -> None:
    """Make the first number of a gradient infinite, which the first rank holds."""
    if dist.get_rank() == 0:
        parameter.grad.to_local()[0, 0] = torch.inf


def work_of(world: World, folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, case in DRAWN_NOWHERE.items():
        results[name] = {"sharded": train(case, world, True)}
    for name, case in DRAWN.items():
        results[name] = {way: train(case, world, way == "sharded") for way in ("whole", "sharded")}
    bf16 = {"computing.precision": "bf16", **BF16}
    results["bf16"] = {way: train(bf16, world, way == "sharded") for way in ("whole", "sharded")}
    start = torch.load(folder / "start.pt")
    results["taken up"] = train(SWITCHED, world, True, start)
    results["left"] = train(SWITCHED, world, True, epochs=1)
    results["updated, left"] = train(DRAWN_NOWHERE[UPDATED], world, True, epochs=1)
    left = world.agree(results["updated, left"])
    results["updated, taken up"] = train(DRAWN_NOWHERE[UPDATED], world, True, left)
    results["scores"] = score(world, folder, True, start)
    results["refused"] = refused_gradient(world)
    return results


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    """What one process has after the first epoch."""
    return train(SWITCHED, World(), epochs=1)


@pytest.fixture(scope="module")
def results(start, tmp_path_factory) -> dict[int, dict[str, Any]]:
    """What 2 and 3 processes did, and what one process scored (as 1)."""
    folder = tmp_path_factory.mktemp("sharded")
    torch.save(start, folder / "start.pt")
    noise = np.random.default_rng(0)
    for number, length in enumerate(LENGTHS):
        sf.write(folder / f"{number}.wav", 0.1 * noise.standard_normal(length), 16000)
    alone = {"scores": score(World(), folder, False, start)}
    return {1: alone, **compute_in_worlds(partial(work_of, folder=folder), folder)}


@pytest.mark.parametrize("processes", [2, 3])
def test_a_divided_network_learns_what_a_whole_one_does(results, processes: int) -> None:
    # Each process draws masks and dropout of its own, so one process is no measure of these.
    for name in DRAWN:
        result = results[processes][name]
        assert_close(result["sharded"], result["whole"], name)
    for name, case in DRAWN_NOWHERE.items():
        assert_close(results[processes][name]["sharded"], train(case, World()), name)


@pytest.mark.parametrize("processes", [2, 3])
def test_divided_updates_learn_and_go_on_to_the_last_bit(results, processes: int) -> None:
    """Also on one process. What is updated rests, and what updates it began at zero."""
    straight = results[processes][UPDATED]["sharded"]
    weights = straight["model_state_dict"]
    ends = ("lora_B", "up_weight")
    added = [name for name in weights if name.endswith(ends)]
    assert len(added) == 3 * 6 + 1 + 3
    assert min(float(weights[name].abs().max()) for name in added) > 1e-5
    resting = "front_end.model.encoder.transformer.layers.0.attention.q_proj.weight"
    torch.manual_seed(0)
    base = build_network(settings_of({}, False), Path(small_networks.__file__).parent)
    assert torch.equal(weights[resting], base.double().state_dict()[resting])
    resumed = results[processes]["updated, taken up"]
    for key in ("model_state_dict", "optimizer_state_dict", "unaveraged_state_dict"):
        torch.testing.assert_close(resumed[key], straight[key], rtol=0, atol=0)
    left = results[processes]["updated, left"]
    alone = train(DRAWN_NOWHERE[UPDATED], World(), start=left)
    assert_close(alone, straight, "one process goes on")


@pytest.mark.parametrize("processes", [2, 3])
def test_in_bf16_a_divided_network_holds_float32(results, processes: int) -> None:
    """And learns what a whole one does, as far as bf16's digits go."""
    sharded, whole = results[processes]["bf16"]["sharded"], results[processes]["bf16"]["whole"]
    weights = sharded["model_state_dict"]
    assert {weight.dtype for weight in weights.values()} == {torch.float32, torch.int64}
    assert sharded["loss_sum"] == pytest.approx(whole["loss_sum"], rel=0.03)


@pytest.mark.parametrize("processes", [2, 3])
def test_checkpoints_change_hands(results, start, processes: int) -> None:
    """From one process to several that divide the network, and back."""
    expected = train(SWITCHED, World(), start=start)
    left = results[processes]["left"]
    assert_close(left, start, "left")
    assert_close(train(SWITCHED, World(), start=left), expected, "one process goes on")
    assert_close(results[processes]["taken up"], expected, "several go on")


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_score_lists_of_unequal_parts_as_one_does(results, processes: int) -> None:
    assert [len(scores) // 4 for scores in results[1]["scores"]] == [2, 7]
    assert results[processes]["scores"] == results[1]["scores"]


@pytest.mark.parametrize("processes", [2, 3])
def test_a_number_that_is_not_finite_is_seen_whoever_holds_it(results, processes: int) -> None:
    assert results[processes]["refused"].startswith("the gradient of step 1 (")


def assert_close(this: Any, other: Any, where: str) -> None:
    """The same names in the same order, and the same numbers up to 1e-6."""
    if isinstance(other, torch.Tensor):
        assert type(this) is torch.Tensor and this.untyped_storage().nbytes() == this.nbytes
        torch.testing.assert_close(this, other, rtol=1e-5, atol=1e-6, msg=lambda m: f"{where}: {m}")
    elif isinstance(other, dict):
        names = [name for name in other if name != "settings"]
        assert [name for name in this if name != "settings"] == names, where
        for name in names:
            assert_close(this[name], other[name], f"{where}, {name}")
    elif isinstance(other, list | tuple):
        assert len(this) == len(other), where
        for position, (first, second) in enumerate(zip(this, other, strict=True)):
            assert_close(first, second, f"{where}[{position}]")
    elif isinstance(other, float):
        assert this == pytest.approx(other, rel=1e-6, abs=1e-6), where
    else:
        assert this == other, where


def test_one_process_keeps_the_network_whole(caplog) -> None:
    with caplog.at_level("INFO", logger="asdf"):
        step = make_step({}, World(), sharded=True)
    assert "one process, so the network is not sharded" in caplog.text
    assert not is_sharded(step.network)


def test_a_killed_divided_run_ends_as_one_never_killed(recipe) -> None:
    """To the last bit of network, optimiser, scores, metrics; one rank dies after a checkpoint."""
    recipe.add_configs(
        "divided < debug\nnetwork.network_class = 'small_networks.FrontEnded'\n"
        "front_end.architecture = 'tiny'\n"
        "front_end.dropout = 0.1\nnetwork.checkpoint_interval_steps = 2\nnetwork.max_epochs = 2\n"
        "computing.shard_network = True\nrecipe.end_stage = 1\n"
    )
    whole = recipe.run("divided", "paths.system_folder=whole", processes=2)
    assert whole.status == 0, whole.output
    assert "divided over 2 processes, which gather its 2 encoder layers" in whole.output
    killed = ("divided", "paths.system_folder=killed")
    assert recipe.run(*killed, processes=2, TEST_KILL="1:3").status != 0
    resumed = recipe.run(*killed, processes=2)
    assert resumed.status == 0, resumed.output
    assert "going on from resume.pt" in resumed.output
    assert_equal_runs(recipe.system("whole"), recipe.system("killed"))
