"""Whole runs on GPUs that compute nothing: the recipe, several processes, no compiler, no room."""

import json
import os
import re
from array import array
from pathlib import Path

import pytest
import torch

from tests.conftest import RECIPE, Outcome
from tests.gpu.ratchets import version_of

COMPILER = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang(\+\+)?)(-\d+)?")


CONFIGS = """
small < quickstart
recipe.selected_epochs = ('last',)
network.minibatch_size = 4
network.max_epochs = 1

cached < small
paths.system_folder = 'cached'
network.network_class = 'asdf.networks.SSL_ASP'
network.clip_position = 'start'
front_end.frozen = True
front_end.cache_features = True
computing.network_dataloader_workers = 2

boosted < small
paths.system_folder = 'boosted'
network.network_class = 'asdf.networks.SSL_ASP'
network.optimizer = 'sgd'
network.max_epochs = 2
front_end.unfreeze_after_epochs = 1
front_end.time_mask_proportion = 0.1
front_end.channel_mask_proportion = 0.1
rawboost.algo = 5
rawboost.on_device = True
computing.precision = 'fp16'
computing.network_dataloader_workers = 2
"""


@pytest.fixture
def quick(recipe, corpus):
    """The recipe with its own configs, and small ones that inherit its quickstart."""
    recipe.add_configs((RECIPE / "configs" / "run_configs.py").read_text() + CONFIGS)
    recipe.corpus = corpus
    return recipe


def run_to_the_end(quick, *words: str, **options) -> Outcome:
    outcome = quick.run(*words, f"paths.database_folder={quick.corpus}", **options)
    assert outcome.status == 0, outcome.output
    assert "Warning" not in outcome.output
    return outcome


@pytest.mark.slow
def test_two_devices_run_all_stages_and_one_goes_on_with_them(quick, null_gpu):
    auto = "network.eval_minibatch_size_factor='auto'"
    both = run_to_the_end(quick, "small", auto, processes=2, **null_gpu(count=2))
    for rank in range(2):
        assert f"local rank {rank}, device cuda:{rank} (Null GPU)" in both.output
    assert "precision bf16: compute capability 9.0\n" in both.output
    said = (
        "scoring in batches of up to 5,856,773 samples: network.eval_minibatch_size_factor = 'auto'"
    )
    assert both.output.count(said) == 1 and "on a GPU of 85 GB\n" in both.output
    assert re.search(r"\npeak memory: GPU 0\.\d\d GB \(rank \d\), host ", both.output)
    [record] = json.loads((quick.system("quickstart") / "environment.json").read_text())
    assert all(record["libraries"][name] for name in ("cuda", "cudnn", "nccl"))
    assert "epoch.1  demo-eval" in both.output
    alone = run_to_the_end(quick, "small", "network.max_epochs=2", **null_gpu())
    assert "trained by 2 processes so far, by 1 from here on" in alone.output
    assert "epoch.2  demo-eval" in alone.output
    assert (quick.system("quickstart") / "results" / "report.html").exists()


# In separate processes: what another network has left in memory may be no network's output.
@pytest.mark.parametrize(
    ("config", "epochs", "said"),
    [
        pytest.param(
            "cached",
            1,
            "computing them once",
            marks=pytest.mark.skipif(
                version_of(torch.__version__) < (2, 14),
                reason="features that nothing computes are memory that this torch used before, "
                "which may hold no numbers of 16 bits",
            ),
        ),
        ("boosted", 2, "precision fp16 with loss scaling"),
    ],
)
def test_what_is_done_next_to_a_step_runs_from_the_first_stage_to_the_last(
    quick, null_gpu, config, epochs, said
):
    outcome = run_to_the_end(quick, config, **null_gpu())
    assert said in outcome.output
    assert f"epoch.{epochs}  demo-eval" in outcome.output
    assert (quick.system(config) / "networks" / f"epoch.{epochs}.pt").exists()


@pytest.fixture
def without_compilers(tmp_path) -> dict[str, str]:
    """An environment whose PATH has all programs but compilers, and no compiled library."""
    path = tmp_path / "bin"
    path.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = path / program.name
            if not (COMPILER.fullmatch(link.name) or link.is_symlink()):
                link.symlink_to(program)
    return {"PATH": str(path), "TRITON_CACHE_DIR": str(tmp_path / "triton"), "CC": ""}


def test_training_needs_no_compiler(recipe, null_gpu, without_compilers):
    recipe.add_configs(
        "self_supervised < debug\n"
        "paths.system_folder = 'self_supervised'\n"
        "network.network_class = 'asdf.networks.SSL_AASIST'\n"
        "front_end.architecture = 'tiny'\n\n"
        "raw < debug\n"
        "network.network_class = 'asdf.networks.AASIST'\n"
    )
    words = ["network.max_epochs=1", "recipe.end_stage=1", "network.train_clip_size=64600"]
    outcome = recipe.run("self_supervised", "raw", *words, **{**null_gpu(), **without_compilers})
    assert outcome.status == 0, outcome.output
    assert outcome.output.count("training ended: network.max_epochs = 1") == 2


@pytest.mark.slow
def test_a_step_that_does_not_fit_ends_with_what_would(quick, null_gpu):
    words = (
        "small",
        "network.network_class=asdf.networks.SSL_ASP",
        "front_end.architecture=wav2vec2_base",
        "front_end.weights=random",
        "network.minibatch_size=26",
        "network.train_clip_size=32000",
        f"paths.database_folder={quick.corpus}",
    )
    outcome = quick.run(*words, **null_gpu(gigabytes=3))
    assert outcome.status == 1 and "Traceback" not in outcome.output
    message = outcome.output.partition("\nerror: ")[2]
    assert message.startswith("cuda:0 does not have enough memory for step ")
    assert "with 26 utterances of 32,000 samples at once: CUDA out of memory. Tried to " in message
    assert "see documentation" not in message.lower()
    assert "Lower network.minibatch_size (now 26) and raise" in message
    smaller = (*(word for word in words if "minibatch" not in word), "network.minibatch_size=2")
    again = quick.run(*smaller, "recipe.end_stage=1", **null_gpu(gigabytes=3))
    assert again.status == 0, again.output


@pytest.mark.slow
def test_a_rank_that_fails_aborts_and_ends_the_one_that_hangs(recipe, null_gpu, tmp_path):
    meeting = tmp_path / "meeting"
    gpus = null_gpu(count=2)
    variables = {**gpus, "TEST_RAISE_ASDF": "1:3", "NULL_GPU_MEETING": str(meeting)}
    outcome = recipe.run("debug", processes=2, **variables)

    assert outcome.status == 1
    cause = outcome.output[outcome.output.rindex("Root Cause") :]
    assert "rank      : 1" in cause
    assert outcome.output.count("[rank 1] error: no more disk") == 1
    assert "rank 0: another process of this run has ended" in outcome.output
    # The launcher's own end of a process that does not heed it.
    assert "SIGKILL" not in outcome.output
    begun, aborted = read_meeting(meeting)
    assert begun[0] > begun[1]  # rank 0 was in an exchange that rank 1 never came to
    assert aborted == [0, 1]


def read_meeting(path) -> tuple[list[int], list[int]]:
    """Collectives begun and aborted, of two ranks."""
    numbers = array("q", path.read_bytes())
    return list(numbers[:2]), list(numbers[16:18])


@pytest.mark.slow
def test_a_dry_run_takes_a_step_and_says_what_it_held_or_what_would_make_it_smaller(
    recipe, null_gpu
):
    words = ["debug", "--dry-run", "network.network_class=asdf.networks.SSL_AASIST"]
    # Nothing before the step has started CUDA, and cuDNN's attention is none of a run's.
    words += ["front_end.architecture=tiny", "network.optimizer=sgd"]
    size = "network.train_clip_size"
    outcome = recipe.run(*words, f"{size}=64600", **null_gpu(gigabytes=2))
    assert outcome.status == 0, outcome.output
    said = re.search(
        r"\n  a step of training on Null GPU \(cuda:0\): (\d+\.\d) [MG]iB at its peak, for which "
        r"torch reserved \d+\.\d [MG]iB of 1\.9 GiB\n",
        outcome.output,
    )
    assert said is not None and float(said[1]) > 0, outcome.output
    outcome = recipe.run(
        *words, f"{size}=1000000", "network.minibatch_size=64", **null_gpu(gigabytes=2)
    )
    assert outcome.status != 0
    assert "cuda:0 does not have enough memory for step" in outcome.output, outcome.output
    assert "Lower network.minibatch_size (now 64) and raise" in outcome.output
