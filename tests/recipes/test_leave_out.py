"""A run that leaves attacks out: what it trains on, what it is validated on, what it says."""

import json
from pathlib import Path

from asdf.evaluation import eer
from asdf.trials.table import read_trials
from tests.recipes.voices import make_voices, trials_of

WORDS = ("debug", "recipe.leave_out=('attack', 'A01', 'A03')", "network.max_epochs=1")
SET = "demo-dev.attack=A01,A03"


def attacks(corpus, part) -> list[str]:
    [protocol] = corpus.rglob(f"ASVspoof2019.LA.cm.{part}.txt")
    return [line.split()[3] for line in protocol.read_text().splitlines()]


def test_attacks_are_left_out_of_training_and_are_all_that_is_validated_on(recipe, corpus, capsys):
    outcome = recipe.call(capsys, *WORDS).ok()
    train, dev = attacks(corpus, "train.trn"), attacks(corpus, "dev.trl")
    removed = sum(attack in ("A01", "A03") for attack in train)
    assert 0 < removed < train.count("A02") + removed < 26
    said = f"{removed} of 26 training utterances, those of attack A01, A03, are left out"
    assert f"recipe.leave_out: {said}" in outcome.output
    assert f"training on {26 - removed} utterances: 13 bona fide" in outcome.output
    unseen = sum(attack in ("A01", "A03") for attack in dev)
    assert f"validating on {SET}: 4 bona fide, {unseen} spoof" in outcome.output
    system = recipe.system()
    scores = recipe.scores(SET)
    assert len(scores) == 4 + unseen
    trials = read_trials(system / "trials" / f"{SET}.tsv")
    assert set(trials.columns["attack"]) <= {"-", "A01", "A03"}
    rate = eer(scores.bona_fide, scores.spoof)[0]
    [record] = json.loads((system / "networks" / "evaluations.json").read_text())
    assert record["eer"] == {SET: rate}
    assert f"epoch.1 on {SET}: EER {100 * rate:.3f} %" in outcome.output
    # Stage 2 scores the whole set of the same name.
    whole = recipe.scores()
    assert len(whole) == 8 and whole.ids != scores.ids
    # The scores of a trial are the same in either list.
    of_whole = dict(zip(whole.ids, whole.scores.tolist(), strict=True))
    assert [of_whole[i] for i in scores.ids] == scores.scores.tolist()
    settings = (system / "settings.py").read_text()
    assert "recipe.leave_out = ('attack', 'A01', 'A03')" in settings


def test_a_dry_run_counts_what_is_left(recipe, corpus, capsys):
    outcome = recipe.call(capsys, *WORDS, "--dry-run").ok()
    removed = sum(attack in ("A01", "A03") for attack in attacks(corpus, "train.trn"))
    assert f"demo-train: trained on without {removed} of 26 utterances" in outcome.output
    assert f"{SET}: 4 bona fide, " in outcome.output
    assert f"{26 - removed} training utterances = " in outcome.output


def test_a_wrong_value_is_said_before_anything_is_measured(recipe, capsys):
    for words in (("--dry-run",), ()):
        outcome = recipe.call(capsys, "debug", "recipe.leave_out=('attack', 'A1')", *words)
        outcome.refused("has the attack 'A1'. Did you mean 'A01'?")
        assert not (recipe.output / "sad").exists()


def test_a_validation_set_that_is_trained_on_is_remarked(recipe, capsys):
    words = (*WORDS, "recipe.validation_sets=('demo-train',)", "recipe.end_stage=1")
    outcome = recipe.call(capsys, *words).ok()
    assert "demo-train is also a training set" in outcome.output


LEFT_OUT = (
    "recipe.leave_out=('attack', 'A01', 'A02')",
    "recipe.leave_out_speakers=('anna',)",
    "recipe.evaluate_left_out=True",
    "recipe.evaluation_sets=('demo-train+demo-dev',)",
    "recipe.selected_epochs=('best',)",
    "network.max_epochs=1",
)
NAME = "attack=A01,A02.speaker=anna"


def names_of(ids) -> list[str]:
    return [Path(utterance).stem for utterance in ids]


def test_what_is_left_out_is_evaluated_and_nothing_else(recipe, corpus, tmp_path, capsys):
    folder = make_voices(corpus, tmp_path / "voices")
    words = ("debug", f"paths.database_folder={folder}", *LEFT_OUT)
    outcome = recipe.call(capsys, *words).ok()
    trained, validated, evaluated = [], [], []
    for part in ("train", "dev"):
        for speaker, utterance, attack in trials_of(folder, part):
            is_left_out = attack in ("A01", "A02")
            if speaker == "anna" or is_left_out:
                if (attack == "-" or is_left_out) and speaker != "bert":
                    evaluated.append(utterance)
            elif part == "train":
                trained.append(utterance)
            else:
                validated.append(utterance)
    assert len(evaluated) > 8 and validated and len(trained) > 8
    assert f"training on {len(trained)} utterances" in outcome.output
    left_out = f"demo-train+demo-dev.{NAME}"
    assert names_of(recipe.scores(f"demo-dev.without-{NAME}").ids) == validated
    file = recipe.scores(left_out)
    assert names_of(file.ids) == evaluated and not set(evaluated) & {*trained, *validated}
    [row] = recipe.results()
    assert row["set"] == left_out
    assert row["eer"] == eer(file.bona_fide, file.spoof)[0]
    assert "with the training set" not in outcome.output
    assert "is also a training set" not in outcome.output

    # Scoring alone, on another day, scores the same.
    (recipe.system() / "scores" / "epoch.1" / f"{left_out}.txt").unlink()
    recipe.call(capsys, *words, "recipe.start_stage=2").ok()
    assert recipe.scores(left_out).scores.tolist() == file.scores.tolist()
    dry = recipe.call(capsys, *words, "--dry-run")
    spoofs = len(evaluated) - len(file.bona_fide)
    counts = f"{len(file.bona_fide)} bona fide, {spoofs} spoof"
    assert f"  {left_out}: {counts}" in dry.output
