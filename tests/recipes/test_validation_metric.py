"""Another metric than the EER chooses networks: in the log, in files, and in all that follows."""

import json

from asdf.evaluation import auc, eer, read_scores

CONFIG = """
judged < debug
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


def test_the_highest_auc_is_the_best(recipe, capsys):
    recipe.add_configs(CONFIG)
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
    best = [
        record["network"] for record in records if values[record["network"]] == max(values.values())
    ]
    scored = [path.parent.name for path in (system / "scores").glob("*/demo-eval.txt")]
    assert scored == [best[-1].removesuffix(".pt")]
    # Retained: the best, and the last one.
    left = {path.name for path in (system / "networks").glob("epoch.*.pt")}
    assert left == {best[-1], records[-1]["network"]}
    report = (system / "results" / "report.html").read_text()
    assert "demo-train auc" in report
    # Also of the evaluation set, on which nothing was chosen.
    [row] = json.loads((system / "results" / "results.json").read_text())
    scores = read_scores(system / "scores" / scored[0] / "demo-eval.txt")
    assert row["validation_metric"] == "auc" and row["lower_is_better"] is False
    assert row["validation_value"] == auc(scores.bona_fide, scores.spoof)
    text = (system / "results" / "results.txt").read_text()
    assert text.splitlines()[0].split()[:5] == ["epoch", "set", "EER", "%", "auc"]


def test_a_function_next_to_the_recipe_stops_early_and_goes_on(recipe, capsys):
    recipe.add_configs(CONFIG)
    (recipe.folder / "my_metrics.py").write_text(METRIC)
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


def test_what_is_no_metric_ends_the_run_before_it_begins(recipe, capsys):
    (recipe.folder / "my_metrics.py").write_text(METRIC)
    for words in (("--dry-run",), ()):
        outcome = recipe.call(capsys, "debug", "network.validation_metric=my_metrics.wrong", *words)
        assert outcome.status == 1 and "Traceback" not in outcome.output
        assert "my_metrics.wrong' failed on the scores of a trial run: TypeError" in outcome.output
        assert not (recipe.output / "sad").exists()
