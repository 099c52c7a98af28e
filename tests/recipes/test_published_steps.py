"""The training steps next to run.py: what they compute, and that their runs go on exactly."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from asdf.audio.rawboost import boost, draw
from asdf.settings.sections import RawBoost, Sections
from asdf.training.steps import Direction
from tests.conftest import RECIPE

CONFIG = """
dual < debug
network.training_step = 'published_steps.DualPath'
rawboost.algo = 4
network.max_epochs = 1
network.checkpoint_interval_steps = 1
network.print_interval = 1
recipe.end_stage = 1
recipe.validation_sets = ()
"""
WEIGHTS = [nn.Parameter(torch.zeros(2))]


@pytest.fixture
def steps(monkeypatch):
    path = RECIPE / "published_steps.py"
    spec = importlib.util.spec_from_file_location("published_steps", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "published_steps", module)
    spec.loader.exec_module(module)
    return module


def direction(*values: float) -> Direction:
    return Direction(WEIGHTS, [torch.tensor(values)])


class Window:
    """Gives two gradients, one after the other, and notes the clips and the result."""

    def __init__(self, *gradients: Direction) -> None:
        self.gradients = list(gradients)
        self.minibatches = [SimpleNamespace(clips=torch.linspace(-0.5, 0.5, 800).reshape(2, 400))]
        self.passes = []

    def gradient(self, clips=None, draw=0):
        self.passes.append((clips, draw))
        return self.gradients.pop(0)

    def clip_generators(self, minibatch, purpose):
        return [np.random.default_rng(number) for number in range(2)]

    def set_gradient(self, direction):
        self.result = direction


@pytest.mark.parametrize(
    ("clean", "boosted", "aligned", "expected"),
    [
        # Their product is -1: (1, 0) + (-1, 1) / 2, and (-1, 1) + (1, 0), and the mean of both.
        ((1.0, 0.0), (-1.0, 1.0), True, (0.25, 0.75)),
        ((1.0, 0.0), (-1.0, 1.0), False, (0.0, 0.5)),
        ((1.0, 0.0), (1.0, 1.0), True, (1.0, 0.5)),
    ],
)
def test_gradients_that_conflict_are_taken_apart(steps, clean, boosted, aligned, expected):
    rawboost = RawBoost(enabled=False, algo=4)
    declared = {"dual_path": steps.DualPathSettings(aligned)}
    settings = Sections(rawboost=rawboost, declared=declared)
    step = steps.DualPath(settings)
    window = Window(direction(*clean), direction(*boosted))
    step.compute_gradient(window)
    torch.testing.assert_close(window.result.values[0], torch.tensor(expected))
    (plain, first), (clips, second) = window.passes
    assert plain is None and first != second
    for number, clip in enumerate(window.minibatches[0].clips.numpy()):
        noises = draw(400, rawboost, np.random.default_rng(number))
        np.testing.assert_array_equal(clips[0][number].numpy(), boost(clip, noises, rawboost))


def test_a_run_goes_on_exactly(recipe, capsys):
    shutil.copy(RECIPE / "published_steps.py", recipe.folder)
    recipe.add_configs(CONFIG)
    runs = [("whole", ()), ("part", ("network.max_steps=2",)), ("part", ())]
    runs.append(("apart", ("dual_path.aligned=False",)))
    for system, words in runs:
        outcome = recipe.call(capsys, "dual", f"paths.system_folder={system}", *words)
        assert outcome.status == 0, outcome.output
    files = {}
    for system in ("whole", "part", "apart"):
        path = recipe.system(system) / "networks" / "epoch.1.pt"
        files[system] = torch.load(path, weights_only=True)
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(files["whole"][key], files["part"][key], rtol=0, atol=0)
    whole = json.dumps(files["whole"]["settings"]["dual_path"])
    assert whole == '{"aligned": true}'
