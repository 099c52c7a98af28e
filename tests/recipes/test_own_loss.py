"""A user's loss with parameters and settings, and likelihood ratios, from training to scores."""

import numpy as np
import pytest
import torch

from asdf import Detector
from asdf.evaluation import cllr, evaluate
from tests.recipes.resuming import assert_resumes_exactly

LOSS = '''
from dataclasses import dataclass

import torch

from asdf.settings import OwnSettings, setting
from asdf.training.losses import Loss


@dataclass
class CentreSettings(OwnSettings, section_name="centre"):
    """What the loss of a centre needs."""

    radius: float = setting(0.5, "bona fide speech is drawn within it", above=0)


class Centre(Loss):
    """Bona fide speech is drawn to a centre that is learnt, and each attack away from it."""

    own_settings = CentreSettings
    columns = ("attack",)

    def __init__(self, settings, dimension):
        super().__init__(settings, dimension)
        self.radius = settings.centre.radius
        self.centre_E = torch.nn.Parameter(torch.randn(dimension))

    def logits(self, embeddings_BE, logits_B2):
        distances_B = (embeddings_BE.float() - self.centre_E).norm(dim=1)
        return torch.stack([distances_B, -distances_B], dim=1)

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        bona_fide = [attack == "-" for attack in columns["attack"]]
        assert bona_fide == (labels_B == 1).tolist()
        outside_B = logits_B2[:, 0] - self.radius
        return torch.nn.functional.softplus(torch.where(labels_B == 1, outside_B, -outside_B))


class ByAttack(Loss):
    """The distance from the centre of bona fide speech, with a weight that is learnt per attack."""

    columns = ("attack",)

    def __init__(self, settings, dimension, values):
        super().__init__(settings, dimension)
        self.names = list(values["attack"])
        self.centre_E = torch.nn.Parameter(torch.randn(dimension))
        self.weights_A = torch.nn.Parameter(torch.ones(len(self.names)))

    def logits(self, embeddings_BE, logits_B2):
        distances_B = (embeddings_BE.float() - self.centre_E).norm(dim=1)
        return torch.stack([distances_B, -distances_B], dim=1)

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        attacks_B = [self.names.index(attack) for attack in columns["attack"]]
        return self.weights_A[attacks_B] * logits_B2[:, 0].exp()


class Infinite(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return super().per_utterance(embeddings_BE, logits_B2, labels_B, columns) / 0
'''
CONFIG = """
mine < debug
network.network_class = 'small_networks.Normed'
network.loss = 'my_loss.Centre'
network.max_epochs = 2
network.average_best_networks = 2
network.checkpoint_interval_steps = 2
recipe.selected_epochs = (2, 'average')
centre.radius = 0.7
"""


@pytest.fixture
def mine(recipe):
    return recipe.with_files(CONFIG, my_loss=LOSS)


@pytest.mark.slow
def test_a_killed_training_on_two_processes_ends_as_one_never_killed(mine, corpus):
    assert_resumes_exactly(mine, "mine", processes=2, TEST_KILL="1:7")
    log = (mine.system("whole") / "log.txt").read_text()
    assert "not trained, as the loss does not depend on them: output.weight" in log
    networks = mine.system("whole") / "networks"
    first, second, average = (
        mine.load(name, "whole")["model_state_dict"]["trained_loss.centre_E"]
        for name in ("epoch.1", "epoch.2", "average")
    )
    assert not torch.equal(first, second)
    torch.testing.assert_close(average, (first.double() + second).float() / 2)
    # The average scores by the average of the centres.
    for name in ("average", "epoch.2"):
        detector = Detector(networks / f"{name}.pt", network_folder=mine.folder)
        assert detector.settings.centre.radius == 0.7
        # Minus a distance.
        assert max(check_scores(mine, corpus, detector, name, "whole")) < 0


def check_scores(recipe, corpus, detector, network, system) -> list[float]:
    """Compare the scores of a run with those of the network's file, and return these."""
    scores = recipe.scores("demo-eval", network, system)
    expected = [detector.score_trial(corpus / trial) for trial in scores.ids]
    np.testing.assert_allclose(scores.scores, expected, rtol=0, atol=1e-5)
    return expected


def test_a_loss_knows_the_values_of_its_columns(mine, capsys, corpus):
    words = ("network.loss=my_loss.ByAttack", "network.max_epochs=1", "recipe.selected_epochs=(1,)")
    words += ("recipe.end_stage=2",)
    mine.call(capsys, "mine", *words, "network.average_best_networks=0").ok()
    content = mine.load()
    assert content["loss"]["values"] == {"attack": ["-", "A01", "A02", "A03"]}
    # The weight of each has learnt.
    assert (content["model_state_dict"]["trained_loss.weights_A"] != 1).all()
    network = mine.system() / "networks" / "epoch.1.pt"
    detector = Detector(network, network_folder=mine.folder)
    check_scores(mine, corpus, detector, "epoch.1", "system1")


def test_what_is_wrong_is_said_before_the_first_step(mine, capsys):
    for words, status, said in (
        (("network.loss=my_loss.Infinite",), 1, "my_loss.Infinite gives inf"),
        (("network.loss=my_loss.Center",), 2, "Did you mean 'Centre'?"),
        (("network.loss=oc_softmx",), 2, "oc_softmax"),
        (("network.loss=my_loss.Centre", "centre.radius=0"), 2, "centre.radius"),
        (("network.loss=focal", "network.score=llr"), 2, "network.score = 'llr'"),
    ):
        mine.call(capsys, "mine", *words).refused(said, status=status)
        assert not list(mine.output.rglob("*.pt"))


@pytest.mark.slow
def test_likelihood_ratios_are_differences_without_the_weighted_priors(recipe, capsys):
    common = ("network.class_weights=(0.1, 0.9)", "network.max_epochs=1")
    scores = {}
    for score in ("difference", "llr"):
        words = (f"paths.system_folder={score}", f"network.score={score}", *common)
        recipe.call(capsys, "debug", *words).ok()
        scores[score] = recipe.scores("demo-eval", system=score)
    # As many bona fide utterances as spoofs, of 9 times the weight.
    expected = scores["difference"].scores - np.log(9)
    np.testing.assert_allclose(scores["llr"].scores, expected, rtol=0, atol=1e-4)
    (row,) = [row for row in recipe.results(system="llr") if row["set"] == "demo-eval"]
    llrs = scores["llr"]
    bona_fide, spoof = llrs.bona_fide, llrs.spoof
    assert row["cllr"] == pytest.approx(cllr(bona_fide, spoof))
    assert row["cllr"] != pytest.approx(cllr(bona_fide + np.log(9), spoof + np.log(9)), rel=0.01)
    assert row["act_dcf"] == pytest.approx(evaluate(llrs).act_dcf)
    # A network that was trained otherwise has no priors.
    words = ("paths.system_folder=difference", "network.score=llr", "recipe.start_stage=2")
    outcome = recipe.call(capsys, "debug", *words, *common)
    outcome.refused("was not trained for likelihood ratios")
