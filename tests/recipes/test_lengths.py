"""Training on recordings of varying length, as docs/training.md says it."""

import json
import re

import pytest
import torch

from tests.distributed.test_exactness import step_losses, weights
from tests.recipes.resuming import assert_resumes_exactly
from tests.steps_shown import shown_files

CONFIG = """
varying < debug
network.network_class = 'my_varying.Varying'
paths.system_folder = 'varying'
lengths.minibatch_s = 4
lengths.min_crop_s = 0.6
lengths.max_crop_s = 1
lengths.buckets = 3
network.print_interval = 1
network.checkpoint_interval_steps = 2
network.max_epochs = 2
rawboost.enabled = True
network.callbacks = ('my_end.End',)

pooled < varying
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
paths.system_folder = 'pooled'
"""

END = """
import os

from asdf.training.callbacks import Callback


class End(Callback):
    def on_step(self, record):
        if os.environ.get("TEST_END") == str(record["step"]):
            os._exit(9)
"""


@pytest.fixture
def mine(recipe):
    return recipe.with_files(CONFIG, my_end=END, **shown_files())


@pytest.mark.slow_but("varying")
@pytest.mark.parametrize("config", ["varying", "pooled"])
def test_training_on_varying_lengths_learns(mine, capsys, config):
    outcome = mine.call(capsys, config).ok()
    said = re.search(r"of up to 4 s: (\d+) to (\d+) utterances, (\d+) in epoch 1", outcome.output)
    least, most, count = map(int, said.groups())
    assert 1 <= least < most <= 4 and count > 26 / 4
    losses = step_losses(mine.system(config))
    assert len(losses) == 2 * count or len(losses) > count


def test_a_dry_run_tries_the_network_on_padded_recordings(mine, capsys):
    outcome = mine.call(capsys, "varying", "--dry-run").ok()
    assert "minibatches of up to 4 s and 4 utterances x 1 process" in outcome.output
    path = mine.folder / "my_varying.py"
    # Of another size: what Python compiled of it in the same second would count otherwise.
    path.write_text(path.read_text().replace("lengths.clamp(min=400)", "lengths.clamped(min=400)"))
    outcome = mine.call(capsys, "varying", "--dry-run")
    assert outcome.status == 1 and "clamped" in outcome.output, outcome.output


COMBINED = {
    "plain": (),
    "sam": ("network.training_step=my_sam.SAM",),
    "joint": ("network.loss=supervised_contrastive",),
    "recomputed": ("front_end.gradient_checkpointing=True", "lora.rank=2", "lora.dropout=0.0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMBINED)
def test_accumulated_minibatches_are_those_of_two_processes(mine, name):
    """One process with two minibatches a step, and two with one each."""
    words = ("network.max_epochs=1", "recipe.end_stage=1", "network.ema_decay=0.9")
    common = ("pooled", *words, *COMBINED[name])
    alone = mine.run(*common, "network.optimizer_step_interval=2", "paths.system_folder=one")
    both = mine.run(*common, "paths.system_folder=two", processes=2)
    assert alone.status == 0 and both.status == 0, alone.output + both.output
    one, two = mine.system("one"), mine.system("two")
    assert step_losses(one) == pytest.approx(step_losses(two), rel=1e-4)
    first, second = (weights(system / "networks" / "epoch.1.pt") for system in (one, two))
    for key, value in first.items():
        torch.testing.assert_close(value, second[key], rtol=1e-2, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("config, processes", [("varying", 1), ("varying", 2), ("pooled", 2)])
def test_a_killed_run_ends_as_one_never_killed(mine, config, processes):
    assert_resumes_exactly(mine, config, processes=processes, TEST_END="5")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("network.network_class=asdf.networks.SSL_AASIST_L", "AASISTLBackEnd does not mask paddin"),
        ("network.network_class=asdf.networks.AASIST_L", "does not take the lengths"),
        ("network.network_class=asdf.networks.SSL_SLS", "takes clips of back_end.sls_samples"),
        ("computing.compile=True", "requires clips of one length and contradicts"),
    ],
)
def test_what_cannot_be_is_refused_before_training(mine, capsys, words, said):
    outcome = mine.call(capsys, "pooled", words)
    outcome.refused(said)
    assert not list(mine.output.rglob("epoch.*.pt"))


@pytest.mark.slow
def test_any_network_trains_where_padding_is_silence(mine, capsys):
    words = ("network.network_class=asdf.networks.SSL_AASIST_L", "lengths.masks=False")
    mine.call(capsys, "pooled", *words, "recipe.end_stage=1", "network.max_epochs=1").ok()
    lines = (mine.system("pooled") / "metrics.jsonl").read_text().splitlines()
    assert any(json.loads(line)["kind"] == "step" for line in lines)
