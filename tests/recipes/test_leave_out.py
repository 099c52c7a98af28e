"""A run that leaves attacks out: what it trains on, what it is validated on, what it says."""

import json

from asdf.evaluation import eer, read_scores
from asdf.trials.table import read_trials

WORDS = ("debug", "recipe.leave_out=('attack', 'A01', 'A03')", "network.max_epochs=1")
SET = "demo-dev.attack=A01,A03"


def attacks(corpus, part) -> list[str]:
    lines = (
        corpus / "LA" / "ASVspoof2019_LA_cm_protocols" / f"ASVspoof2019.LA.cm.{part}.txt"
    ).read_text()
    return [line.split()[3] for line in lines.splitlines()]


def test_attacks_are_left_out_of_training_and_are_all_that_is_validated_on(recipe, corpus, capsys):
    outcome = recipe.call(capsys, *WORDS)
    assert outcome.status == 0, outcome.output
    train, dev = attacks(corpus, "train.trn"), attacks(corpus, "dev.trl")
    removed = sum(attack in ("A01", "A03") for attack in train)
    assert 0 < removed < train.count("A02") + removed < 26
    assert (
        f"recipe.leave_out: {removed} of 26 training utterances, those of attack A01, A03, are "
        "left out" in outcome.output
    )
    assert f"training on {26 - removed} utterances: 13 bona fide" in outcome.output
    unseen = sum(attack in ("A01", "A03") for attack in dev)
    assert f"validating on {SET}: 4 bona fide, {unseen} spoof" in outcome.output
    system = recipe.system()
    scores = read_scores(system / "scores" / "epoch.1" / f"{SET}.txt")
    assert len(scores) == 4 + unseen
    trials = read_trials(system / "trials" / f"{SET}.tsv")
    assert set(trials.columns["attack"]) <= {"-", "A01", "A03"}
    rate = eer(scores.bona_fide, scores.spoof)[0]
    [record] = json.loads((system / "networks" / "evaluations.json").read_text())
    assert record["eer"] == {SET: rate}
    assert f"epoch.1 on {SET}: EER {100 * rate:.3f} %" in outcome.output
    # Stage 2 scores the whole set of the same name.
    whole = read_scores(system / "scores" / "epoch.1" / "demo-dev.txt")
    assert len(whole) == 8 and whole.ids != scores.ids
    # The scores of a trial are the same in either list.
    of_whole = dict(zip(whole.ids, whole.scores.tolist(), strict=True))
    assert [of_whole[i] for i in scores.ids] == scores.scores.tolist()
    settings = (system / "settings.py").read_text()
    assert "recipe.leave_out = ('attack', 'A01', 'A03')" in settings


def test_a_dry_run_counts_what_is_left(recipe, corpus, capsys):
    outcome = recipe.call(capsys, *WORDS, "--dry-run")
    assert outcome.status == 0, outcome.output
    removed = sum(attack in ("A01", "A03") for attack in attacks(corpus, "train.trn"))
    assert f"demo-train: trained on without {removed} of 26 utterances" in outcome.output
    assert f"{SET}: 4 bona fide, " in outcome.output
    assert f"{26 - removed} training utterances = " in outcome.output


def test_a_wrong_value_is_said_before_anything_is_measured(recipe, capsys):
    for words in (("--dry-run",), ()):
        outcome = recipe.call(capsys, "debug", "recipe.leave_out=('attack', 'A1')", *words)
        assert outcome.status == 2 and "Traceback" not in outcome.output
        assert "has the attack 'A1'. Did you mean 'A01'?" in outcome.output
        assert outcome.output.count("error:") == 1 and not (recipe.output / "sad").exists()


def test_a_validation_set_that_is_trained_on_is_remarked(recipe, capsys):
    outcome = recipe.call(
        capsys, *WORDS, "recipe.validation_sets=('demo-train',)", "recipe.end_stage=1"
    )
    assert outcome.status == 0 and "demo-train is a training set as well" in outcome.output
