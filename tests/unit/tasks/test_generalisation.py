"""One table over several corpora: averages and pooled error rates by hand, intervals, own sets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from asdf.evaluation import eer, evaluate, read_scores
from asdf.report import gather, report_page, runs_in, runs_to_latex
from asdf.tasks.studies.generalisation import (
    corpus_of,
    generalisation_json,
    generalisation_table,
    generalisation_text,
)
from tests.unit.report.seeded import make_seeded_run

SETS = ("demo-eval", "in-the-wild", "other:test")


def make(base, name, seed, shift):
    settings = {"own__shift": shift, "recipe__training_sets": ("demo-train",)}
    return make_seeded_run(base / name, seed, shift=shift, sets=SETS, **settings)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    return [make(base, f"net-seed{seed}", seed, 2) for seed in (0, 1)] + [make(base, "bad", 0, 1)]


def scores_of(folder):
    return [read_scores(folder / "scores" / "epoch.1" / f"{name}.txt") for name in SETS]


def average_of(folder, names=SETS):
    eers = dict(zip(SETS, (evaluate(scores).eer for scores in scores_of(folder)), strict=True))
    return np.mean([eers[name] for name in names])


def pooled_of(folder):
    bona_fide = np.concatenate([scores.bona_fide for scores in scores_of(folder)])
    spoof = np.concatenate([scores.spoof for scores in scores_of(folder)])
    return eer(bona_fide, spoof)[0]


@pytest.fixture(scope="module")
def one(folders):
    return gather(runs_in(folders[:1]), replicates=100)


@pytest.fixture(scope="module")
def all_runs(folders):
    return gather(runs_in(folders), replicates=100)


def test_average_and_pooled_of_one_run(folders, one):
    known = one.generalisation
    assert known.trained_on == ("demo-train",)
    assert [(row.name, row.is_own) for row in known.rows if not row.sets] == [
        ("demo-eval", True),
        ("in-the-wild", False),
        ("other:test", False),
    ]
    totals = {row.name: row for row in known.rows if row.sets}
    assert list(totals) == [
        "Average, 2 sets of other corpora",
        "Pooled, 2 sets of other corpora",
        "Average, 3 sets",
        "Pooled, 3 sets",
    ]
    average = totals["Average, 3 sets"].eers["net-seed0"]
    assert average.mean == pytest.approx(average_of(folders[0]))
    assert average.interval.low < average.mean < average.interval.high
    others = totals["Average, 2 sets of other corpora"].eers["net-seed0"]
    assert others.mean == pytest.approx(average_of(folders[0], SETS[1:]))
    pooled = totals["Pooled, 3 sets"]
    assert pooled.eers["net-seed0"].mean == pooled_of(folders[0])
    assert (pooled.bona_fide, pooled.spoof) == (120, 180)
    assert [row.corpus for row in known.rows] == ["trained on", *["other"] * 2, *[""] * 4]


def test_over_seeds_each_seed_is_averaged_and_pooled(folders, all_runs):
    totals = {row.name: row for row in all_runs.generalisation.rows if row.sets}
    average = totals["Average, 3 sets"].eers["net-seed*"]
    values = [average_of(folder) for folder in folders[:2]]
    assert average.values == pytest.approx(values)
    assert average.deviation == pytest.approx(np.std(values, ddof=1))
    pooled = totals["Pooled, 3 sets"].eers["net-seed*"]
    assert pooled.values == tuple(map(pooled_of, folders[:2]))
    assert totals["Pooled, 3 sets"].leader == "net-seed*"


def test_published_numbers_are_named_only_for_the_published_trials(one):
    rows = {row.name: row for row in one.generalisation.rows if not row.sets}
    assert rows["in-the-wild"].published == "over other trials (31,779)"
    assert rows["demo-eval"].published == ""


def test_the_page_and_the_files_have_the_table(one, all_runs):
    table = generalisation_table(all_runs.generalisation)
    assert [cell.shown for cell in table.head][:4] == ["Set", "Corpus", "Bona fide", "Spoof"]
    assert table.rows[-1][4].mark == "best"
    assert "<h3>Generalisation</h3>" in report_page(one)
    lines = generalisation_text(one.generalisation).splitlines()
    assert lines[1].split()[:5] == ["demo-eval", "trained", "on", "40", "60"]
    record = json.loads(generalisation_json(one.generalisation))
    assert record["sets"][0]["is_own"] is True
    assert record["totals"][0]["sets"] == ["in-the-wild", "other:test"]
    latex = runs_to_latex(all_runs)
    latex = latex[latex.index("% generalisation") :]
    assert "demo-eval$^\\dagger$ &" in latex
    assert "Pooled, 3 sets" in latex
    assert latex.count("\\begin{tabular}") == latex.count("\\bottomrule")


def test_sets_of_the_training_corpus_alone_are_no_generalisation(folders, tmp_path):
    settings = {"recipe__training_sets": ("demo-train",)}
    run = make_seeded_run(tmp_path / "net", 0, sets=("demo-dev", "demo-eval"), **settings)
    assert gather(runs_in([run]), replicates=0).generalisation is None
    assert gather(runs_in(folders[:1]), "all", replicates=0).generalisation is None


def test_corpora_of_sets():
    names = ["demo-eval", "asvspoof19:eval", "asvspoof19", "for:testing", "asvspoof19-pa:dev"]
    assert list(map(corpus_of, names)) == [
        "demo",
        "asvspoof19",
        "asvspoof19",
        "for",
        "asvspoof19-pa",
    ]
