"""Whole runs on GPUs that compute nothing: the recipe, several processes, machines without a compiler."""

import os
import re
from pathlib import Path

import pytest

COMPILER = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang(\+\+)?)(-\d+)?")


@pytest.mark.parametrize("processes", [1, 2])
def test_the_recipe_runs_from_its_first_stage_to_its_last(recipe, null_gpu, processes):
    words = ["debug", "network.max_epochs=1", "network.network_class=asdf.networks.SSL_AASIST"]
    words += ["front_end.architecture=tiny", "network.train_clip_size=8000"]
    words += ["front_end.time_mask_proportion=0.1", "rawboost.algo=5"]
    outcome = recipe.run(*words, processes=processes, **null_gpu(count=processes))
    assert outcome.status == 0, outcome.output
    for rank in range(processes):
        assert f"local rank {rank}, device cuda:{rank} (Null GPU)" in outcome.output
    assert "precision bf16: compute capability 9.0\n" in outcome.output
    assert "epoch.1  demo-eval" in outcome.output
    assert "Warning" not in outcome.output
    assert (recipe.system() / "results" / "report.html").exists()


@pytest.fixture
def without_compilers(tmp_path) -> dict[str, str]:
    """An environment whose PATH has all programs but compilers, and nothing that was compiled before."""
    path = tmp_path / "bin"
    path.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = path / program.name
            if not (COMPILER.fullmatch(link.name) or link.is_symlink()):
                link.symlink_to(program)
    return {"PATH": str(path), "TRITON_CACHE_DIR": str(tmp_path / "triton"), "CC": ""}


@pytest.mark.parametrize("network", ["AASIST", "SSL_AASIST"])
def test_training_needs_no_compiler(recipe, null_gpu, without_compilers, network):
    words = ["debug", "network.max_epochs=1", "recipe.end_stage=1"]
    words += [f"network.network_class=asdf.networks.{network}", "front_end.architecture=tiny"]
    words += ["network.train_clip_size=64600"]
    outcome = recipe.run(*words, **{**null_gpu(), **without_compilers})
    assert outcome.status == 0, outcome.output
    assert "training ended: network.max_epochs = 1" in outcome.output
