"""The memory of a training step that a dry run takes on a GPU, which here computes nothing."""

import re

import pytest


@pytest.mark.slow
def test_a_dry_run_takes_a_step_and_says_what_it_held_or_what_would_make_it_smaller(
    recipe, null_gpu
):
    words = ["debug", "--dry-run", "network.network_class=asdf.networks.SSL_AASIST"]
    words += ["front_end.architecture=tiny", "computing.precision=fp32"]
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
