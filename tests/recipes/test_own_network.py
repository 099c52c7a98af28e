"""A user's network and callback, in files next to the recipe, by documented interfaces alone."""

import torch

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
from asdf.training.callbacks import Callback


class Notes(Callback):
    pass


class Unreachable(Callback):
    def __init__(self, settings, folder):
        raise ConnectionError("no tracker")
"""

CONFIG = """
own < debug
network.network_class = 'my_network.Mean'
network.max_epochs = 1
network.print_interval = 4
front_end.architecture = 'tiny'
"""


def own(recipe, capsys, *words):
    if "own <" not in (recipe.folder / "configs" / "run_configs.py").read_text():
        recipe.with_files(CONFIG, my_network=NETWORK, my_callbacks=CALLBACK)
    return recipe.call(capsys, "own", *words)


def test_wrong_outputs_are_said_before_the_first_step(recipe, capsys):
    outcome = own(recipe, capsys, "network.network_class=my_network.LogitsOnly")
    said = "my_network.LogitsOnly gives a tensor (2, 2) instead of two tensors for 2 utterances"
    outcome.refused(said, status=1)
    assert not list((recipe.system() / "networks").iterdir())


def test_a_frozen_front_end_stays_and_the_rest_learns(recipe, capsys):
    own(recipe, capsys, "front_end.frozen=True", "network.max_epochs=2", "recipe.end_stage=1").ok()
    first, second = (recipe.load(f"epoch.{n}")["model_state_dict"] for n in (1, 2))
    changed = {name for name in first if not torch.equal(first[name], second[name])}
    assert changed == {"output.weight", "output.bias"}


def test_what_does_not_fit_the_interface_is_said(recipe, capsys):
    derived = "not a class derived from asdf.training.callbacks.Callback, which"
    for words, status, said in (
        ("network.network_class=my_network.Wrong", 2, "derived from torch.nn.Module, which is"),
        ("network.network_class=my_netwrk.Mean", 2, "Did you mean 'my_network'?"),
        ("network.network_class=my_network.Silent", 2, "Silent lacks forward, which every network"),
        ("network.network_class=my_network.Half", 2, "Half lacks make_back_end, which every"),
        ("network.callbacks=('my_network.Mean',)", 2, derived),
        # What only building shows.
        ("network.network_class=my_network.Pooled", 1, "TypeError: Mean.__init__() got an unexpe"),
        ("back_end.back_end_class=resnet18", 2, "ResNet18BackEnd, but my_network.Mean does not"),
        ("localisation.enabled=True", 2, "my_network.Mean has no frame-level head"),
        (
            "network.callbacks=('my_callbacks.Unreachable',)",
            1,
            "my_callbacks.Unreachable(settings, folder) failed: ConnectionError: no tracker",
        ),
    ):
        outcome = own(recipe, capsys, words).refused(said, status=status)
        assert "stage 0" not in outcome.output  # nothing is measured first


def test_a_dry_run_finds_what_does_not_exist(recipe, capsys):
    own(recipe, capsys, "--dry-run")
    (recipe.folder / "loud.py").write_text("from torch.nn import Linear as Other\n")
    (recipe.folder / "broken.py").write_text("class Mean(:\n")
    (recipe.folder / "open.py").write_text("from torch.nn import *\n")
    for class_path, status, said in (
        ("my_network.Maen", 2, "Did you mean 'Mean'?"),
        ("loud.Mean", 2, "has no class 'Mean'. Available there: Other."),
        ("broken.Mean", 1, "importing broken failed: SyntaxError"),
    ):
        outcome = own(recipe, capsys, "--dry-run", f"network.network_class={class_path}")
        # The plan comes all the same.
        outcome.refused(said, "network.network_class", "stages", status=status)
        assert outcome.output.count(said) == 2  # in place of the plan of the network, and as error
    outcome = own(recipe, capsys, "--dry-run", "network.callbacks=('my_callbacks.Nots',)")
    outcome.refused("network.callbacks: module my_callbacks")
    for right in ("my_network.Mean", "asdf.networks.SSL_ASP"):
        own(recipe, capsys, "--dry-run", f"network.network_class={right}").ok()
    # Classes that exist, and are no networks.
    for other in ("loud.Other", "open.Linear"):
        outcome = own(recipe, capsys, "--dry-run", f"network.network_class={other}")
        outcome.refused("A network's constructor takes one argument", status=1)
    # Scores alone need no class of a setting: each network file states its own.
    own(recipe, capsys, "--dry-run", "network.network_class=none.X", "recipe.end_stage=0").ok()
