"""A set that was trained on, or that chose the network, is reported as such wherever it stands."""

import csv
import json
import shutil

import pytest

from asdf.__main__ import main
from tests.conftest import make_recipe

BEST = ("debug", "network.max_epochs=3", "recipe.selected_epochs=('best',)")
WORDS = (*BEST, "recipe.evaluation_sets=('demo-train', 'demo-dev', 'demo-eval')")
TRAINED = "this set was trained on: the results are not a test."
CHOSE = "the network was chosen by its result on this set: expect worse results on new speech."


@pytest.fixture(scope="module")
def judged(corpus, warm, tmp_path_factory):
    """The recipe with a run that evaluates a set of each role."""
    recipe = make_recipe(tmp_path_factory.mktemp("judged") / "recipe", corpus, warm)
    assert recipe.run_here(*WORDS) == 0
    return recipe


def roles_of(system) -> list[tuple[str, int, int]]:
    rows = json.loads((system / "results" / "results.json").read_text())
    return [(row["set"], row["trained_on"], row["chose_network"]) for row in rows]


def test_tables_the_log_files_and_the_page_of_the_run(judged, tmp_path):
    system = judged.system()
    printed = (system / "log.txt").read_text()
    assert "demo-train is a training set: results on it are not test results" in printed
    line = next(line for line in printed.splitlines() if " on demo-train: EER" in line)
    assert line.endswith(", trained on")
    table = (system / "results" / "results.txt").read_text()
    assert table in printed
    rows = {line.split()[1]: line for line in table.splitlines()}
    assert rows["demo-train"].endswith("whole, up to 62.5 s, trained on")
    assert rows["demo-dev"].endswith("whole, up to 62.5 s, chose the network")
    assert rows["demo-eval"].endswith("whole, up to 62.5 s")
    assert table.splitlines()[-2:] == [f"demo-train: {TRAINED}", f"demo-dev: {CHOSE}"]
    assert roles_of(system) == [("demo-train", 26, 0), ("demo-dev", 0, 8), ("demo-eval", 0, 0)]
    page = (system / "results" / "report.html").read_text()
    assert f"<p><strong>No test:</strong> {TRAINED}</p>" in page
    assert f"<p><strong>No test:</strong> {CHOSE}</p>" in page
    assert page.count("<strong>No test:</strong>") == 2
    # In the overview, behind its number.
    assert page.count(", trained on<span") == 1
    assert page.count(", chose the network<span") == 1
    latex = tmp_path / "table.tex"
    outputs = ["--output", str(tmp_path / "p.html"), "--latex", str(latex)]
    assert main(["report", str(system), *outputs]) == 0
    text = latex.read_text()
    assert r"demo-train$^\ddagger$" in text and r"demo-dev$^\ddagger$" in text
    assert r"demo-eval$" not in text
    assert f"double dagger, demo-train: {TRAINED}" in text


def test_evaluate_and_compare(judged, capsys, tmp_path):
    recipe, system = judged, judged.system()
    (network,) = (system / "scores").glob("*/demo-eval.txt")
    scores = network.with_name("demo-dev.txt")
    outputs = {name: tmp_path / f"out.{name}" for name in ("json", "csv", "latex")}
    words = [f"--{name}={path}" for name, path in outputs.items()]
    capsys.readouterr()
    assert main(["evaluate", str(scores), "--replicates", "0", *words]) == 0
    shown = capsys.readouterr()
    assert "scored         whole, up to 62.5 s, chose the network\n" in shown.out
    assert f"warning: demo-dev: {CHOSE}" in shown.err
    (record,) = json.loads(outputs["json"].read_text())
    assert (record["trained_on"], record["chose_network"]) == (0, 8)
    assert record["warnings"].count(CHOSE) == 1
    (row, *_) = csv.DictReader(outputs["csv"].open())
    assert (row["trained_on"], row["chose_network"]) == ("0", "8")
    assert "whole, up to 62.5 s, chose the network" in outputs["latex"].read_text()
    other = shutil.copytree(system, tmp_path / "other")
    assert main(["compare", str(system), str(other), "--replicates", "20"]) == 0
    shown = capsys.readouterr().out
    assert f"  demo-dev, A: {CHOSE}\n" in shown and f"  demo-train, B: {TRAINED}\n" in shown
    # A folder without the record is known by its settings.
    (system / "sets.json").unlink()
    recipe.call(capsys, *WORDS, "recipe.start_stage=3").ok()
    assert roles_of(system) == [("demo-train", 26, 0), ("demo-dev", 0, 8), ("demo-eval", 0, 0)]


def test_recordings_count_not_the_names_of_sets(recipe, corpus, capsys, tmp_path):
    """Under another name, some recordings of the training list and one of those of validation."""
    own = shutil.copytree(corpus, tmp_path / "corpus")
    train = (own / "train_list.txt").read_text().splitlines()
    dev = (own / "dev_list.txt").read_text().splitlines()
    evaluated = (own / "eval_list.txt").read_text()
    (own / "eval_list.txt").write_text("\n".join([*train[:3], dev[0], evaluated]))
    words = (*BEST, f"paths.database_folder={own}", "recipe.evaluation_sets=('demo-eval',)")
    outcome = recipe.call(capsys, *words).ok()
    assert roles_of(recipe.system()) == [("demo-eval", 3, 1)]
    words = "3 of 12 trained on and 1 of 12 chose the network"
    assert f"whole, up to 62.5 s, {words}\n" in outcome.output
    known = json.loads((recipe.system() / "sets.json").read_text())
    roles = {"trained_on": {"demo-train": 3}, "validated_on": {"demo-dev": 1}}
    assert known["demo-eval"] == {"trials": 12, **roles}


def test_the_last_epoch_was_chosen_by_nothing_and_validation_may_be_the_training_set(
    recipe, capsys
):
    words = ("debug", "network.max_epochs=2", "recipe.validation_sets=('demo-train',)")
    outcome = recipe.call(capsys, *words).ok()
    assert "demo-train is a training set: results on it are not test results" in outcome.output
    lines = [line for line in outcome.output.splitlines() if "on demo-train: EER" in line]
    assert len(lines) == 2 and all(line.endswith(", trained on") for line in lines)
    assert roles_of(recipe.system()) == [("demo-dev", 0, 0), ("demo-eval", 0, 0)]


def test_a_set_that_is_scored_on_another_day_is_compared_with_what_was_trained_on(trained, capsys):
    words = ("debug", "recipe.start_stage=2", "recipe.evaluation_sets=('demo-train',)")
    trained.call(capsys, *words).ok()
    assert roles_of(trained.system()) == [("demo-train", 26, 0)]
