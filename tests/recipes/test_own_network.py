"""A user's network and callback, in files next to the recipe, by documented interfaces alone."""

import json

import pytest
import torch

from asdf.evaluation import read_scores

NETWORK = '''
import torch
from asdf.networks import DetectorNetwork, SSLDetector, Wav2Vec2FrontEnd


class Mean(DetectorNetwork):
    """The mean of the front end's features, and a linear layer."""

    def __init__(self, settings):
        super().__init__(settings)
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.output = torch.nn.Linear(self.front_end.dimension, 2)

    def forward(self, waveforms_BT):
        embeddings_BE = self.front_end(waveforms_BT).mean(dim=1)
        return embeddings_BE, self.output(embeddings_BE)

    def front_end_parameters(self):
        return self.front_end.parameters()


class Wrong:
    pass


class Silent(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()

    def foward(self, waveforms_BT):
        return waveforms_BT, waveforms_BT[:, :2]


class Half(SSLDetector):
    pass


class Pooled(Mean):
    """Takes a keyword that its class does not have."""

    def __init__(self, settings):
        super().__init__(settings, pooling="mean")


class LogitsOnly(Mean):
    def forward(self, waveforms_BT):
        return super().forward(waveforms_BT)[1]
'''

CALLBACK = """
import json
from asdf.training.callbacks import Callback


class Notes(Callback):
    def on_start(self, step):
        self.notes = [["start", step, self.settings.network.max_epochs]]

    def on_step(self, record):
        self.notes.append(["step", record["step"], record["loss"]])

    def on_evaluation(self, record):
        self.notes.append(["evaluation", record["network"], sorted(record["eer"])])

    def on_checkpoint(self, path):
        assert path.exists()
        self.notes.append(["checkpoint", path.name])

    def on_end(self, record):
        notes = [*self.notes, ["end", record["reason"]]]
        (self.folder / "notes.json").write_text(json.dumps(notes))
"""

DOWN = """
import os, signal
from asdf.training.callbacks import Callback


class Down(Callback):
    def on_step(self, record):
        raise ConnectionError(f"no tracker at step {record['step']}")


class Unreachable(Callback):
    def __init__(self, settings, folder):
        raise ConnectionError("no tracker")


class Killing(Callback):
    def on_evaluation(self, record):
        if "TEST_KILL_AT" in os.environ and record["network"] == os.environ["TEST_KILL_AT"]:
            os.kill(os.getpid(), signal.SIGKILL)
"""

CONFIG = """
own < debug
network.network_class = 'my_network.Mean'
network.callbacks = ('my_callbacks.Notes',)
network.max_epochs = 1
network.print_interval = 4
front_end.architecture = 'tiny'
"""


def own(recipe, capsys, *words):
    if "own <" not in (recipe.folder / "configs" / "run_configs.py").read_text():
        recipe.add_configs(CONFIG)
        (recipe.folder / "my_network.py").write_text(NETWORK)
        (recipe.folder / "my_callbacks.py").write_text(CALLBACK)
        (recipe.folder / "trackers.py").write_text(DOWN)
    return recipe.call(capsys, "own", *words)


def test_it_trains_scores_and_is_notified_of_everything(recipe, capsys):
    own(recipe, capsys).ok()
    assert len(read_scores(recipe.system() / "scores" / "epoch.1" / "demo-eval.txt")) == 8
    notes = json.loads((recipe.system() / "notes.json").read_text())
    assert [note[:2] for note in notes] == [
        ["start", 0],
        ["step", 4],
        ["checkpoint", "epoch.1.pt"],
        ["evaluation", "epoch.1.pt"],
        ["end", "network.max_epochs = 1"],
    ]
    assert notes[0][2] == 1 and 0 < notes[1][2] < 2 and notes[3][2] == ["demo-dev"]


def test_wrong_outputs_are_said_before_the_first_step(recipe, capsys):
    outcome = own(recipe, capsys, "network.network_class=my_network.LogitsOnly")
    assert outcome.status == 1 and "Traceback" not in outcome.output
    assert outcome.output.count("error:") == 1
    assert (
        "my_network.LogitsOnly gives a tensor (2, 2) instead of two tensors for 2 utterances"
        in outcome.output
    )
    assert not list((recipe.system() / "networks").iterdir())


def test_a_callback_that_fails_at_every_step_does_not_end_the_training(recipe, capsys):
    words = (
        "network.callbacks=('trackers.Down', 'my_callbacks.Notes')",
        "network.print_interval=1",
    )
    outcome = own(recipe, capsys, *words, "recipe.end_stage=1").ok()
    assert "Traceback" not in outcome.output, outcome.output
    said = [line for line in outcome.output.splitlines() if "trackers.Down" in line]
    assert said[-2].startswith(
        "network.callbacks: trackers.Down.on_step failed: ConnectionError: no tracker at step 1 ("
    )
    assert said[-1] == "network.callbacks: trackers.Down.on_step failed 7 times"
    assert outcome.output.count("ConnectionError") == 1
    log = (recipe.system() / "log.txt").read_text()
    assert log.count("Traceback (most recent call last)") == 1
    # The other callback saw all of the run.
    assert len(json.loads((recipe.system() / "notes.json").read_text())) == 1 + 7 + 2 + 1


@pytest.mark.slow
def test_a_kill_before_the_evaluations_are_saved_doubles_no_line(recipe, capsys):
    own(recipe, capsys, "--dry-run")
    words = ("own", "network.callbacks=('trackers.Killing',)", "network.max_epochs=2")
    killed = recipe.run(*words, TEST_KILL_AT="epoch.1.pt")
    assert killed.status == -9, killed.output
    assert not (recipe.system() / "networks" / "evaluations.json").exists()
    metrics = recipe.system() / "metrics.jsonl"
    assert metrics.read_text().count('"kind": "evaluation"') == 1
    with metrics.open("ab") as file:
        file.write(b'{"kind": "step", "step"\xff\x00\x00')  # what a power cut may leave
    recipe.call(capsys, *words).ok()
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("step", 4),
        ("evaluation", 7),
        ("step", 8),
        ("step", 12),
        ("evaluation", 14),
        ("end", 14),
    ]


def test_a_frozen_front_end_stays_and_the_rest_learns(recipe, capsys):
    own(recipe, capsys, "front_end.frozen=True", "network.max_epochs=2", "recipe.end_stage=1").ok()
    networks = recipe.system() / "networks"
    first, second = (
        torch.load(networks / f"epoch.{n}.pt", weights_only=True)["model_state_dict"]
        for n in (1, 2)
    )
    changed = {name for name in first if not torch.equal(first[name], second[name])}
    assert changed == {"output.weight", "output.bias"}


def test_what_does_not_fit_the_interface_is_said(recipe, capsys):
    derived = "derived from asdf.training.callbacks.Callback is required"
    for words, status, said in (
        ("network.network_class=my_network.Wrong", 2, "torch.nn.modules.module.Module is required"),
        ("network.network_class=my_netwrk.Mean", 2, "Did you mean 'my_network'?"),
        ("network.network_class=my_network.Silent", 2, "Silent lacks forward, which every network"),
        ("network.network_class=my_network.Half", 2, "Half lacks make_back_end, which every"),
        ("network.callbacks=('my_network.Mean',)", 2, derived),
        # What only building shows.
        (
            "network.network_class=my_network.Pooled",
            1,
            "Pooled(settings) failed: TypeError: Mean.__init__() got an unexpected keyword",
        ),
        (
            "back_end.back_end_class=resnet18",
            2,
            "names ResNet18BackEnd, but my_network.Mean does not take one",
        ),
        ("localisation.enabled=True", 2, "my_network.Mean has no frame-level head"),
        (
            "network.callbacks=('trackers.Unreachable',)",
            1,
            "trackers.Unreachable(settings, folder) failed: ConnectionError: no tracker",
        ),
    ):
        outcome = own(recipe, capsys, words)
        assert outcome.status == status, outcome.output
        assert said in outcome.output, outcome.output
        assert "Traceback" not in outcome.output, outcome.output
        assert "stage 0" not in outcome.output  # nothing is measured first


def test_a_dry_run_finds_what_does_not_exist_without_running_it(recipe, capsys):
    own(recipe, capsys, "--dry-run")
    (recipe.folder / "loud.py").write_text(
        "print('it runs')\nfrom torch.nn import Linear as Other\n"
    )
    (recipe.folder / "broken.py").write_text("class Mean(:\n")
    (recipe.folder / "open.py").write_text("from torch.nn import *\n")
    for class_path, status, said in (
        ("my_network.Maen", 2, "Did you mean 'Mean'?"),
        ("loud.Mean", 2, "has no class 'Mean'. Available there: nothing."),
        ("broken.Mean", 1, "broken.py is not Python: SyntaxError"),
    ):
        outcome = own(recipe, capsys, "--dry-run", f"network.network_class={class_path}")
        assert outcome.status == status
        assert said in outcome.output
        assert "network.network_class" in outcome.output
        assert (
            "it runs" not in outcome.output and "stages" in outcome.output
        )  # the plan comes all the same
    outcome = own(recipe, capsys, "--dry-run", "network.callbacks=('my_callbacks.Nots',)")
    assert outcome.status == 2 and "network.callbacks: module my_callbacks" in outcome.output
    for right in ("my_network.Mean", "asdf.networks.SSL_ASP"):
        own(recipe, capsys, "--dry-run", f"network.network_class={right}").ok()
    # Classes that exist, and are no networks.
    for other in ("loud.Other", "open.Linear"):
        outcome = own(recipe, capsys, "--dry-run", f"network.network_class={other}")
        assert outcome.status == 1
        assert "A network's constructor takes one argument" in outcome.output
    # Scores alone need no class of a setting: each network file states its own.
    own(recipe, capsys, "--dry-run", "network.network_class=none.X", "recipe.end_stage=0").ok()
