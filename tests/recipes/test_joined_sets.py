"""'a+b' is an evaluation set of two corpora."""

import numpy as np

from asdf.evaluation import eer
from asdf.trials.table import read_trials


def test_two_corpora_are_scored_as_one_set(recipe, capsys):
    words = ["debug", "network.max_epochs=1", "recipe.end_stage=2"]
    words += ["recipe.evaluation_sets=('demo-dev+demo-eval', 'demo-eval', 'demo-dev')"]
    planned = recipe.call(capsys, *words, "--dry-run").ok()
    assert "  demo-dev+demo-eval: these together" in planned.output
    outcome = recipe.call(capsys, *words).ok()
    joined = recipe.scores("demo-dev+demo-eval")
    parts = {name: recipe.scores(name) for name in ("demo-dev", "demo-eval")}
    values = dict(zip(joined.ids, joined.scores, strict=True))
    for name, part in parts.items():
        expected = [values[f"{name}:{utterance}"] for utterance in part.ids]
        assert expected == part.scores.tolist()
    bona_fide = np.concatenate([part.bona_fide for part in parts.values()])
    spoof = np.concatenate([part.spoof for part in parts.values()])
    assert f"on demo-dev+demo-eval: EER {100 * eer(bona_fide, spoof)[0]:.3f} %" in outcome.output
    trials = read_trials(recipe.system() / "trials" / "demo-dev+demo-eval.tsv")
    assert trials.columns["speaker"][0]


def test_an_unknown_part_is_named_and_a_joined_set_is_not_trained_on(recipe, capsys):
    joined = {"evaluation": "demo-dev+demo-evil", "training": "demo-train+demo-dev"}
    words = [f"recipe.{kind}_sets=('{name}',)" for kind, name in joined.items()]
    outcome = recipe.call(capsys, "debug", *words)
    assert outcome.status != 0
    for name in joined.values():
        assert f"the recipe knows no corpus '{name}'" in outcome.output
