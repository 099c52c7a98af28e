"""What a report shows over seeds: numbers of numpy, the best seed by its validation, and tests."""

import json

import numpy as np
import pytest

from asdf.evaluation import evaluate, read_scores
from asdf.report import gather, report_page, runs_in
from asdf.tasks.studies.seed_results import seed_results_table, seed_sentences, seeds_table
from tests.unit.report.seeded import make_seeded_run


def eers_of(folders, set_name="eval"):
    paths = [folder / "scores" / "epoch.1" / f"{set_name}.txt" for folder in folders]
    return [evaluate(read_scores(path)).eer for path in paths]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    good, bad = (
        [make_seeded_run(base / f"{name}-seed{n}", n, **settings) for n in range(3)]
        for name, settings in (
            ("good", {"shift": 3, "network__dropout": 0}),
            ("bad", {"shift": 1, "network__dropout": 1}),
        )
    )
    # Seed 1 is the best on the validation set, whatever its EER here is.
    for folder, eer in zip(good, (0.3, 0.1, 0.2), strict=True):
        record = {"kind": "evaluation", "step": 10, "epoch": 1, "network": "epoch.1.pt"}
        (folder / "metrics.jsonl").write_text(json.dumps({**record, "eer": {"val": eer}}) + "\n")
    return [*good, *bad]


@pytest.fixture(scope="module")
def gathered(folders):
    return gather(runs_in(folders), replicates=100)


def test_means_and_deviations_are_those_of_numpy(folders, gathered):
    first, second = gathered.over_seeds.by_set["eval"]
    assert [first.name, second.name] == ["good-seed*", "bad-seed*"]
    eers = eers_of(folders[:3])
    assert first.eer.values == tuple(eers)
    assert first.eer.mean == np.mean(eers)
    assert first.eer.deviation == np.std(eers, ddof=1)
    assert first.eer.interval.low < first.eer.mean < first.eer.interval.high
    table = seed_results_table(gathered.over_seeds, "eval")
    shown = [f"{100 * value:.2f}" for value in (np.mean(eers), np.std(eers, ddof=1))]
    assert [cell.text for cell in table.rows[0]][:4] == ["good-seed*", "3", *shown]


def test_a_set_has_the_seeds_and_configurations_that_were_scored_on_it(tmp_path):
    whole = [make_seeded_run(tmp_path / f"net-seed{seed}", seed) for seed in range(2)]
    partial = make_seeded_run(tmp_path / "net-seed2", 2, sets=("dev",))
    other = make_seeded_run(tmp_path / "other", 0, sets=("dev",), network__dropout=1)
    by_set = gather(runs_in([*whole, partial, other]), replicates=0).over_seeds.by_set
    seeds = {result.name: result.seeds for result in by_set["dev"]}
    assert seeds == {"net-seed*": ("0", "1", "2"), "other": ("0",)}
    (alone,) = by_set["eval"]
    assert (alone.seeds, alone.eer.values) == (("0", "1"), tuple(eers_of(whole)))


def test_the_best_seed_is_chosen_by_the_validation_set(folders, gathered):
    best = gathered.over_seeds.by_set["eval"][0].best
    assert (best.seed, best.chosen_by) == ("1", "eer on val")
    assert best.eer == eers_of(folders)[1]


def test_the_best_is_marked_where_the_tests_agree(gathered):
    sentences = seed_sentences(gathered.over_seeds)
    (eval_sentence,) = [text for text in sentences if text.startswith("On eval")]
    assert "good-seed* (mean EER" in eval_sentence
    assert "is significantly better than bad-seed*" in eval_sentence
    assert "p = 0.002 (paired by seed and trials); over seeds alone, p = 0.0" in eval_sentence
    table = seeds_table(gathered.over_seeds, gathered.sets)
    marks = [(row[0].text, row[-1].mark) for row in table.rows]
    assert marks == [("good-seed*", "best"), ("bad-seed*", "")]


def test_with_two_seeds_the_sentence_says_that_they_are_few(folders):
    few = gather(runs_in([folders[0], folders[1], folders[3], folders[4]]), replicates=100)
    sentence = seed_sentences(few.over_seeds)[-1]
    assert sentence.endswith("; with 2 seeds, only large differences are seen.")


def test_a_run_alone_is_compared_with_a_group(folders):
    mixed = gather(runs_in([*folders[:3], folders[3]]), replicates=100)
    results = mixed.over_seeds.by_set["eval"]
    assert [len(result.seeds) for result in results] == [3, 1]
    assert results[1].eer.deviation is None
    assert results[1].best is None
    assert "bad-seed0 (EER" in seed_sentences(mixed.over_seeds)[-1]


def test_runs_without_a_group_have_no_results_over_seeds(folders):
    alone = gather(runs_in([folders[0], folders[3]]), replicates=50)
    assert alone.over_seeds.by_set == {}
    assert seeds_table(alone.over_seeds, alone.sets) is None
    page = report_page(alone)
    assert "over-seeds" not in page[page.index("<body") :]


def test_seeds_of_other_trials_have_a_mean_and_no_interval(tmp_path):
    folders = [make_seeded_run(tmp_path / f"seed{n}", n, sets=("eval",)) for n in range(2)]
    path = folders[0] / "scores" / "epoch.1" / "eval.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    gathered = gather(runs_in(folders), replicates=50)
    (result,) = gathered.over_seeds.by_set["eval"]
    assert result.eer.interval is None
    assert result.eer.mean == np.mean(eers_of(folders))
    messages = [finding.message for finding in gathered.findings]
    assert any(text.startswith("no interval: the networks of seeds 0, 1") for text in messages)
