"""Cached features of real runs: the same file from two processes, exact resumes, refusals."""

import json
import shutil
import signal

import numpy as np
import pytest
import torch

CONFIG = """
cached < debug
network.network_class = 'asdf.networks.SSL_ASP'
network.clip_position = 'start'
network.optimizer = 'sgd'
network.initial_learning_rate = 0.1
front_end.architecture = 'tiny'
front_end.frozen = True
front_end.cache_features = True
network.max_epochs = 2
network.checkpoint_interval_steps = 1
recipe.validation_sets = ()
recipe.end_stage = 1
"""


def caches(folder):
    return sorted(path for path in folder.glob("*") if (path / "manifest.json").exists())


def networks(recipe, system):
    content = torch.load(recipe.system(system) / "networks" / "epoch.2.pt", weights_only=True)
    return {key: content[key] for key in ("model_state_dict", "optimizer_state_dict")}


@pytest.mark.slow
def test_runs_on_cached_features_go_on_exactly_and_are_those_of_the_frozen_front_end(
    recipe, capsys
):
    recipe.add_configs(CONFIG)
    whole = recipe.call(capsys, "cached", "recipe.validation_sets=('demo-dev',)").ok()
    assert (
        "features of 26 clips: 39.9 kB, in" in whole.output
        and "computing them once" in whole.output
    )
    assert "epoch.2 on demo-dev: EER" in whole.output
    resumed = ("cached", "paths.system_folder=resumed")
    assert recipe.call(capsys, *resumed, "network.max_steps=3").status == 0
    outcome = recipe.call(capsys, *resumed)
    assert (
        "already computed" in outcome.output and "going on from epoch.1.step.3.pt" in outcome.output
    )
    torch.testing.assert_close(
        networks(recipe, "resumed"), networks(recipe, "system1"), rtol=0, atol=0
    )
    recipe.call(
        capsys, "cached", "front_end.cache_features=False", "paths.system_folder=uncached"
    ).ok()
    near, cached = (networks(recipe, name)["model_state_dict"] for name in ("uncached", "system1"))
    # Cached in float16: 14 steps, each 0.1 times a gradient of up to about 1 that is off by 2^-11.
    torch.testing.assert_close(near, cached, rtol=1e-3, atol=14 * 0.1 * 2**-11)


def test_a_run_that_has_ended_computes_no_features_again(recipe, capsys):
    recipe.add_configs(CONFIG)
    assert recipe.call(capsys, "cached").status == 0
    shutil.rmtree(recipe.output / "features")
    again = recipe.call(capsys, "cached")
    assert again.status == 0 and "training ended: network.max_epochs = 2" in again.output, (
        again.output
    )
    assert not (recipe.output / "features").exists()


@pytest.mark.slow
def test_two_processes_cache_the_same_features_and_train_alike(recipe, capsys):
    """Minibatch 8 on one process, 4 on two; the pass has batches of 16 in both."""
    recipe.add_configs(CONFIG)
    recipe.call(capsys, "cached", "network.minibatch_size=8").ok()
    alone = (recipe.output / "features").rename(recipe.output / "alone")
    options = (
        "network.minibatch_size=4",
        "network.eval_minibatch_size_factor=4",
        "paths.system_folder=two",
    )
    recipe.run("cached", *options, processes=2).ok()
    [first], [second] = caches(alone), caches(recipe.output / "features")
    assert first.name == second.name
    assert (first / "features.bin").read_bytes() == (second / "features.bin").read_bytes()
    torch.testing.assert_close(
        networks(recipe, "two"), networks(recipe, "system1"), rtol=1e-3, atol=1e-5
    )


SIGNALLED = """
import os

from asdf.networks import ASPBackEnd, SSLDetector


class Signalled(SSLDetector):
    passes = 0

    def __init__(self, settings):
        super().__init__(settings)
        self.front_end.register_forward_hook(self.signal)

    def signal(self, *_):
        self.passes += 1
        if self.passes == 8:
            os.kill(os.getpid(), int(os.environ.get("TEST_SIGNAL", "0")))

    def make_back_end(self, settings):
        return ASPBackEnd(self.front_end.dimension, 4)
"""


def test_a_killed_pass_leaves_no_cache_and_a_stopped_one_goes_on(recipe, capsys):
    """The signal comes while the front end computes the fifth clip, after noise and a blank.

    The fourth is then written, and the fifth would be while the sixth is computed.
    """
    recipe.add_configs(CONFIG)
    (recipe.folder / "signalled.py").write_text(SIGNALLED)
    one_clip_a_batch = ("network.minibatch_size=1", "network.eval_minibatch_size_factor=1")
    options = (
        "cached",
        *one_clip_a_batch,
        "network.network_class=signalled.Signalled",
        "network.max_epochs=1",
    )
    features = recipe.output / "features"
    killed = recipe.run(*options, TEST_SIGNAL=str(int(signal.SIGKILL)))
    assert killed.status == -signal.SIGKILL and caches(features) == []
    stopped = recipe.run(*options, TEST_SIGNAL=str(int(signal.SIGTERM)))
    assert stopped.status == 0, stopped.output
    assert (
        "stopped by signal SIGTERM while computing features; the same command resumes"
        in stopped.output
    )
    [part] = features.glob("*/stopped.json")
    assert caches(features) == [] and json.loads(part.read_text())["batches"] == [0, 1, 2, 3]
    last = recipe.call(capsys, *options)
    assert last.status == 0 and "continuing after 4 of 26 batches of features" in last.output, (
        last.output
    )
    assert len(caches(features)) == 1 and not part.exists()


def test_what_cannot_be_cached_is_refused_before_any_work(recipe, capsys):
    recipe.add_configs(CONFIG)
    outcome = recipe.call(
        capsys, "cached", "front_end.frozen=False", "network.clip_position='random'"
    )
    assert outcome.status == 2
    for setting, value in (("front_end.frozen", "True"), ("network.clip_position", "'start'")):
        assert f"({setting} = {value}), not {setting} = " in outcome.output
    for network_class in ("small_networks.Plain", "asdf.networks.AASIST"):
        outcome = recipe.call(capsys, "cached", f"network.network_class={network_class}")
        assert outcome.status == 2
        assert (
            f"{network_class.rpartition('.')[2]} has no front end of ASDF whose features"
            in outcome.output
        )
    assert not (recipe.output / "features").exists() and not (recipe.output / "sad").exists()
    outcome = recipe.call(capsys, "cached", "--dry-run")
    assert f"its features are saved in {recipe.output / 'features'}" in outcome.output


@pytest.mark.slow
@pytest.mark.usefixtures("bfloat16")
def test_features_of_another_precision_are_cached_apart(recipe, capsys):
    recipe.add_configs(CONFIG)
    once = ("cached", "network.max_epochs=1")
    assert recipe.call(capsys, *once).status == 0
    (exact,) = caches(recipe.output / "features")
    words = ("front_end.cache_precision=bf16", "paths.system_folder=coarse")
    outcome = recipe.call(capsys, *once, *words).ok()
    assert "\nfeatures are computed in bf16" in outcome.output
    (coarse,) = set(caches(recipe.output / "features")) - {exact}
    identities = []
    values = []
    for folder in (exact, coarse):
        identities.append(json.loads((folder / "manifest.json").read_text())["identity"])
        (path,) = (path for path in folder.iterdir() if path.name.startswith("features"))
        values.append(np.fromfile(path, np.float16).astype(np.float32))
    assert identities[1].pop("precision") == "bf16"
    assert identities[0] == identities[1]
    difference = np.abs(values[1] - values[0])
    # Layers of bf16, each of whose numbers is off by 2^-9 of itself; layer norm makes them about 1.
    assert 2**-12 < difference.mean() < 2**-5 * np.abs(values[0]).mean()
    # On the CPU TF32 is fp32: nothing is computed again.
    words = ("front_end.cache_precision=tf32", "paths.system_folder=again")
    outcome = recipe.call(capsys, *once, *words)
    assert "features are computed in fp32: tf32 not used: it needs a GPU" in outcome.output
    assert "already computed" in outcome.output
