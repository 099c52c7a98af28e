"""The loss of a validation set is that of the logits that its scores are from, in every record."""

import json
import re

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from asdf.audio import read_audio, repeat_to
from asdf.evaluation import read_scores
from asdf.settings.sections import Sections
from tests.small_networks import Plain

WEIGHTS = (0.1, 0.9)
LOSSES = """
import torch
from asdf.training.losses import CrossEntropy


class OfAttacks(CrossEntropy):
    columns = ("attack",)

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        attacks = columns["attack"]
        is_hard_B = torch.tensor([attack == "A02" for attack in attacks], dtype=torch.long)
        assert [attack == "-" for attack in attacks] == (labels_B == 1).tolist()
        values_B = super().per_utterance(embeddings_BE, logits_B2, labels_B, columns)
        return values_B * (1 + is_hard_B)


class Failing(CrossEntropy):
    def per_utterance(self, *arguments):
        if not self.training:
            raise RuntimeError("only for training")
        return super().per_utterance(*arguments)
"""
SHORT = ("network.max_epochs=2", "recipe.end_stage=1")
OPTIONS = ("debug", f"network.class_weights={WEIGHTS}", *SHORT)
SSL = ("network.network_class=asdf.networks.SSL_ASP", "front_end.architecture=tiny")


@pytest.fixture
def mine(recipe):
    (recipe.folder / "my_losses.py").write_text(LOSSES)
    return recipe


def evaluations(system) -> list[dict]:
    return json.loads((system / "networks" / "evaluations.json").read_text())


def without_evaluation(system, network) -> None:
    """Let an evaluation be missing, as of a start that ended before it."""
    path = system / "networks" / "evaluations.json"
    left = [record for record in evaluations(system) if record["network"] != network]
    path.write_text(json.dumps(left))


def expected_losses(system, name, corpus) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute a network's cross-entropies on the development set, and their weights."""
    network = Plain(Sections())
    path = system / "networks" / f"{name}.pt"
    network.load_state_dict(torch.load(path, weights_only=True)["model_state_dict"])
    scores = read_scores(system / "scores" / name / "demo-dev.txt")
    logits = []
    for trial in scores.ids:
        waveform = read_audio(corpus / trial)
        clip_BT = torch.from_numpy(repeat_to(waveform, max(4000, len(waveform)))[None])
        logits.append(network(clip_BT)[1].detach())
    logits_N2 = torch.cat(logits)
    # The same utterances, whole.
    np.testing.assert_allclose(scores.scores, logits_N2[:, 1], rtol=0, atol=1e-5)
    labels_N = torch.from_numpy(scores.labels).long()
    losses_N = F.cross_entropy(logits_N2.double(), labels_N, reduction="none")
    return losses_N, torch.tensor(WEIGHTS)[labels_N]


@pytest.mark.slow_but("averaged")
@pytest.mark.parametrize(
    ("processes", "ema_decay"), [(1, None), (2, None), (1, 0.5)], ids=["one", "two", "averaged"]
)
def test_every_record_has_the_weighted_cross_entropy(recipe, corpus, processes, ema_decay):
    outcome = recipe.run(*OPTIONS, f"network.ema_decay={ema_decay}", processes=processes).ok()
    system = recipe.system("system1")
    records = evaluations(system)
    lines = map(json.loads, (system / "metrics.jsonl").read_text().splitlines())
    logged = [line["validation_loss"] for line in lines if line["kind"] == "evaluation"]
    assert logged == [record["validation_loss"] for record in records]
    assert [record["network"] for record in records] == ["epoch.1.pt", "epoch.2.pt"]
    for record in records:
        name = record["network"].removesuffix(".pt")
        [(corpus_name, loss)] = record["validation_loss"].items()
        assert corpus_name == "demo-dev"
        losses_N, weights_N = expected_losses(system, name, corpus)
        expected = float((losses_N * weights_N).sum() / weights_N.sum())
        assert loss == pytest.approx(expected, rel=1e-5)
        line = f"{name} on demo-dev: EER {100 * record['eer']['demo-dev']:.3f} %, loss {loss:.4f}"
        assert line in outcome.output
    assert records[0]["validation_loss"] != records[1]["validation_loss"]


def test_an_evaluation_that_was_left_out_is_by_the_margin_of_the_last_step(recipe, capsys):
    words = ("debug", "network.loss=am_softmax", *SHORT)
    options = (*words, "loss.margin_warmup_epochs=5")
    recipe.call(capsys, *options).ok()
    system = recipe.system("system1")
    before = evaluations(system)
    without_evaluation(system, "epoch.2.pt")
    outcome = recipe.call(capsys, *options).ok()
    assert "epoch.2 on demo-dev" in outcome.output, outcome.output
    assert evaluations(system) == before
    # Another margin is another number.
    without_evaluation(system, "epoch.2.pt")
    recipe.call(capsys, *words, "loss.margin_warmup_epochs=2").ok()
    losses = [evaluated[1]["validation_loss"] for evaluated in (evaluations(system), before)]
    assert losses[0]["demo-dev"] > losses[1]["demo-dev"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("network.loss=supervised_contrastive",), ""),
        (("network.loss=my_losses.Failing",), "it fails: RuntimeError: only for training"),
    ],
)
def test_no_number_is_recorded_where_none_is_right(mine, capsys, words, said):
    outcome = mine.call(capsys, *OPTIONS, *words).ok()
    [first, second] = evaluations(mine.system("system1"))
    assert "validation_loss" not in {**first, **second}
    assert re.search(r"epoch\.2 on demo-dev: EER \d+\.\d{3} %\n", outcome.output)
    warning = "warning: no loss is computed on demo-dev"
    assert outcome.output.count(warning) == 2 * bool(said) and said in outcome.output


def test_a_loss_of_columns_gets_those_of_the_validation_set(mine, capsys, corpus):
    mine.call(capsys, *OPTIONS, "network.loss=my_losses.OfAttacks").ok()
    system = mine.system("system1")
    losses_N, weights_N = expected_losses(system, "epoch.2", corpus)
    [protocol] = corpus.rglob("*.dev.trl.txt")
    attacks = [line.split()[3] for line in protocol.read_text().splitlines()]
    factors_N = torch.tensor([1 + (attack == "A02") for attack in attacks])
    assert sorted(set(attacks)) == ["-", "A01", "A02", "A03"]
    expected = float((losses_N * weights_N * factors_N).sum() / weights_N.sum())
    loss = evaluations(system)[1]["validation_loss"]
    assert loss == {"demo-dev": pytest.approx(expected, rel=1e-5)}


@pytest.mark.slow_but("averaged", "bf16")
@pytest.mark.parametrize(
    ("words", "processes"),
    [
        ((*SSL, "network.loss=oc_softmax"), 2),
        (("network.loss=oc_softmax", "network.ema_decay=0.5"), 1),
        (("network.score=difference", "computing.scoring_precision=bf16"), 1),
        (("network.score=llr",), 2),
    ],
    ids=["two processes", "averaged", "bf16", "likelihood ratios"],
)
def test_the_loss_is_that_of_the_scores(recipe, bfloat16, words, processes):
    recipe.run(*OPTIONS, *words, processes=processes).ok()
    system = recipe.system("system1")
    for record in evaluations(system):
        name = record["network"].removesuffix(".pt")
        scores = read_scores(system / "scores" / name / "demo-dev.txt")
        is_bona_fide = scores.labels == 1
        if "network.loss=oc_softmax" in words:
            # A score is a cosine c: softplus of alpha (.9 - c) or of alpha (c - .2).
            wrong = np.where(is_bona_fide, 0.9 - scores.scores, scores.scores - 0.2) * 20
        else:
            # The posterior log odds have the priors: 13 utterances of each class, weighted.
            prior = np.log(WEIGHTS[1] / WEIGHTS[0]) * ("network.score=llr" in words)
            wrong = np.where(is_bona_fide, -1, 1) * (scores.scores + prior)
        weights = np.array(WEIGHTS)[scores.labels]
        expected = (np.logaddexp(0, wrong) * weights).sum() / weights.sum()
        assert record["validation_loss"] == {"demo-dev": pytest.approx(expected, rel=1e-4)}
