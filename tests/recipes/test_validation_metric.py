"""The metric that chooses networks is that of the score files, wherever it stands."""

import json

import pytest

from asdf.evaluation import auc, eer, read_scores

CALLBACK = """
import json
from asdf.training.callbacks import Callback


class Evaluations(Callback):
    def on_evaluation(self, record):
        with open(self.folder / "seen.jsonl", "a") as file:
            file.write(json.dumps(record) + "\\n")
"""

CONFIG = """
judged < debug
network.callbacks = ('my_callbacks.Evaluations',)
network.initial_learning_rate = 0.01
network.evaluation_interval_steps = 3
network.max_epochs = 3
network.keep_last_networks = 1
network.keep_best_networks = 1
recipe.selected_epochs = ('best',)
recipe.validation_sets = ('demo-train',)
recipe.evaluation_sets = ('demo-eval',)
"""

METRIC = """
def spread(bona_fide, spoof):
    return -abs(bona_fide.mean() - spoof.mean())


def wrong(bona_fide):
    return 0.0
"""


def values_of_scores(system, metric) -> dict[str, float]:
    values = {}
    for path in (system / "scores").glob("*/demo-train.txt"):
        scores = read_scores(path)
        values[f"{path.parent.name}.pt"] = metric(scores.bona_fide, scores.spoof)
    return values


def evaluations(system) -> list[dict]:
    return json.loads((system / "networks" / "evaluations.json").read_text())


def best_of(records, values, choose) -> str:
    """Return the network with the best value, of equals the later one."""
    names = [record["network"] for record in records]
    return [name for name in names if values[name] == choose(values.values())][-1]


def lines_of(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def judging(recipe):
    return recipe.with_files(CONFIG, my_callbacks=CALLBACK, my_metrics=METRIC)


def test_the_lowest_eer_is_the_best_and_an_early_stop_follows_it(judging, capsys):
    words = ("judged", "network.max_epochs=4", "network.early_stop_evaluations=1")
    outcome = judging.call(capsys, *words, "recipe.end_stage=2").ok()
    system = judging.system()
    records = evaluations(system)
    eers = values_of_scores(system, lambda *scores: eer(*scores)[0])
    values = [eers[record["network"]] for record in records]
    # 7 steps an epoch: every third step, and the ends of the epochs would be 12.
    assert 1 < len(values) < 12
    # Each one but the last was better than the one before it.
    assert values[:-1] == sorted(set(values[:-1]), reverse=True) and values[-1] >= values[-2]
    assert "1 evaluations without a better EER than that of" in outcome.output
    metrics = [line for line in lines_of(system / "metrics.jsonl") if "eer" in line]
    for lines in (records, metrics, lines_of(system / "seen.jsonl")):
        assert [line["eer"] for line in lines] == [{"demo-train": value} for value in values]
    for record, value in zip(records, values, strict=True):
        name = record["network"].removesuffix(".pt")
        assert f"{name} on demo-train: EER {100 * value:.3f} %" in outcome.output
    scored = [path.parent.name for path in (system / "scores").glob("*/demo-eval.txt")]
    assert scored == [best_of(records, eers, min).removesuffix(".pt")]


def test_the_highest_auc_is_the_best(judging, capsys):
    recipe = judging
    outcome = recipe.call(capsys, "judged", "network.validation_metric=auc").ok()
    system = recipe.system()
    values = values_of_scores(system, auc)
    eers = values_of_scores(system, lambda *scores: eer(*scores)[0])
    records = evaluations(system)
    assert len(records) == 9 and len(set(values.values())) > 1
    for record in records:
        name = record["network"]
        assert record["auc"] == {"demo-train": values[name]}
        assert record["eer"] == {"demo-train": eers[name]}
        assert (record["validation_metric"], record["lower_is_better"]) == ("auc", False)
        line = f"EER {100 * eers[name]:.3f} %, auc {values[name]:.4f}"
        assert f"{name.removesuffix('.pt')} on demo-train: {line}" in outcome.output
    best = best_of(records, values, max)
    scored = [path.parent.name for path in (system / "scores").glob("*/demo-eval.txt")]
    assert scored == [best.removesuffix(".pt")]
    # Retained: the best, and the last one.
    left = {path.name for path in (system / "networks").glob("epoch.*.pt")}
    assert left == {best, records[-1]["network"]}
    report = (system / "results" / "report.html").read_text()
    assert "demo-train auc" in report
    # Also of the evaluation set, on which nothing was chosen.
    [row] = recipe.results()
    scores = recipe.scores("demo-eval", scored[0])
    assert row["validation_metric"] == "auc" and row["lower_is_better"] is False
    assert row["validation_value"] == auc(scores.bona_fide, scores.spoof)
    text = (system / "results" / "results.txt").read_text()
    assert text.splitlines()[0].split()[:5] == ["epoch", "set", "EER", "%", "auc"]


def test_a_function_next_to_the_recipe_stops_early_and_goes_on(judging, capsys):
    recipe = judging
    words = ("judged", "network.keep_last_networks=None")
    outcome = recipe.call(capsys, *words, "network.max_epochs=1", "recipe.end_stage=1").ok()
    assert "auc" not in outcome.output
    assert "validation_metric" not in evaluations(recipe.system())[0]
    # Three networks know their EER alone.
    own = (*words, "network.validation_metric=my_metrics.spread", "network.max_epochs=40")
    train = ("network.early_stop_evaluations=1", "recipe.end_stage=1")
    outcome = recipe.call(capsys, *own, *train).ok()
    assert "3 of the 3 networks so far were validated by eer, without" in outcome.output
    assert "1 evaluations without a better my_metrics.spread than that of" in outcome.output
    known = [r for r in evaluations(recipe.system()) if "my_metrics.spread" in r]
    values = [record["my_metrics.spread"]["demo-train"] for record in known]
    assert len(values) >= 2 and values[:-1] == sorted(set(values[:-1]), reverse=True)
    assert values[-1] >= values[-2]
    best = known[values.index(min(values))]["network"]
    outcome = recipe.call(capsys, *own, "recipe.start_stage=2").ok()
    [scored] = [path.parent.name for path in (recipe.system() / "scores").glob("*/demo-eval.txt")]
    assert f"{scored}.pt" == best


def test_what_is_no_metric_ends_the_run_before_it_begins(judging, capsys):
    recipe = judging
    for words in (("--dry-run",), ()):
        outcome = recipe.call(capsys, "debug", "network.validation_metric=my_metrics.wrong", *words)
        said = "my_metrics.wrong' failed on the scores of a trial run: TypeError"
        outcome.refused(said, status=1)
        assert not (recipe.output / "sad").exists()
