"""One table over several corpora: averages and pooled error rates by hand, intervals, own sets."""

import json

import numpy as np
import pytest

from asdf.evaluation import eer, evaluate, read_scores
from asdf.report import gather, report_page, runs_in, runs_to_latex
from asdf.tasks.studies.generalisation import (
    KNOWN_SETS,
    corpus_of,
    generalisation_json,
    generalisation_table,
    generalisation_text,
    of_the_same_length,
)
from asdf.trials.how_scored import PUBLISHED, WHOLE, ScoredLength
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
    own = {row.name: row.is_own for row in known.rows if not row.sets}
    assert own == {"demo-eval": True, "in-the-wild": False, "other:test": False}
    totals = {row.name: row for row in known.rows if row.sets}
    counts = ("2 sets of other corpora", "3 sets")
    assert list(totals) == [f"{kind}, {n}" for n in counts for kind in ("Average", "Pooled")]
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


def test_none_leads_by_chance(folders, tmp_path):
    pair = [folders[0], make(tmp_path, "twin", 1, 2.05)]
    rows = {row.name: row for row in gather(runs_in(pair), replicates=50).generalisation.rows}
    assert rows["Average, 3 sets"].leader == ""


def test_the_leading_system_of_a_set_is_bold(folders):
    known = gather(runs_in([folders[2], folders[0]]), replicates=100)
    assert [leading["eer"] for leading in known.leading.values()] == [0, 0, 0]
    _, latex = runs_to_latex(known).split("% generalisation\n")
    cells = {"net-seed0": [], "bad": []}
    for line in latex.splitlines():
        name, *values = line.removesuffix(r" \\").split(" & ")
        cells.get(name, []).extend(values)
    for name, folder in (("net-seed0", folders[0]), ("bad", folders[2])):
        for scores, cell in zip(scores_of(folder), cells[name], strict=False):
            value = f"{100 * evaluate(scores).eer:.2f}"
            shown = f"\\textbf{{{value}}}" if name == "net-seed0" else value
            assert cell.split(" (")[0] == shown
    assert cells["bad"]


def test_published_numbers_are_named_only_for_the_published_trials(one):
    rows = {row.name: row for row in one.generalisation.rows if not row.sets}
    assert rows["in-the-wild"].published == "over other trials (31,779)"
    assert rows["demo-eval"].published == ""


def test_the_page_and_the_files_have_the_table(one, all_runs):
    table = generalisation_table(all_runs.generalisation)
    assert [cell.text for cell in table.head][:4] == ["Set", "Corpus", "Bona fide", "Spoof"]
    assert table.rows[-1][4].mark == "best"
    assert "<h3>Generalisation</h3>" in report_page(one)
    lines = generalisation_text(one.generalisation).splitlines()
    assert lines[1].split()[:5] == ["demo-eval", "trained", "on", "40", "60"]
    record = json.loads(generalisation_json(one.generalisation))
    assert record["sets"][0]["is_own"] is True
    assert record["totals"][0]["sets"] == ["in-the-wild", "other:test"]
    assert "demo-eval$^\\dagger$ &" in runs_to_latex(all_runs)


def test_sets_of_the_training_corpus_alone_are_no_generalisation(folders, tmp_path):
    settings = {"recipe__training_sets": ("demo-train",)}
    run = make_seeded_run(tmp_path / "net", 0, sets=("demo-dev", "demo-eval"), **settings)
    assert gather(runs_in([run]), replicates=0).generalisation is None
    assert gather(runs_in(folders[:1]), "all", replicates=0).generalisation is None


def test_corpora_of_sets():
    names = ["demo-eval", "asvspoof19:eval", "asvspoof19", "for:testing", "asvspoof19-pa:dev"]
    corpora = ["demo", "asvspoof19", "asvspoof19", "for", "asvspoof19-pa"]
    assert list(map(corpus_of, names)) == corpora


_66800 = ScoredLength(66800, 66800)

# EER %, min t-DCF, scored length. The EERs of AASIST are those of its paper (ICASSP 2022) and of
# clovaai/aasist, the others are in the tables of Liu-Tianchi/Nes2Net_ASVspoof_ITW too; the t-DCFs
# are those of the systems' papers. Lengths: data_utils.py of clovaai/aasist (64,600),
# data_utils_SSL.py of TakHemlata/SSL_Anti-spoofing, of QiShanZhang/SLSforASVspoof-2021-DF and of
# Nes2Net (64,600; for In-the-Wild its README has --test_protocol full), data_utils.py of
# ductuantruong/tcm_add and of XLSR-Mamba (66,800; 64,600 for In-the-Wild).
TABLE = {
    "asvspoof19-eval": {"AASIST": (0.83, 0.0275, PUBLISHED), "AASIST-L": (0.99, 0.0309, PUBLISHED)},
    "asvspoof21-la:eval": {
        "XLS-R + AASIST": (0.82, 0.2066, PUBLISHED),
        "XLSR-Mamba": (0.93, 0.208, _66800),
        "XLS-R + Conformer-TCM": (1.03, None, _66800),
        "Nes2Net-X": (1.73, None, PUBLISHED),
        "XLS-R + SLS": (2.87, None, PUBLISHED),
    },
    "asvspoof21-df:eval": {
        "Nes2Net-X": (1.65, None, PUBLISHED),
        "XLSR-Mamba": (1.88, None, _66800),
        "XLS-R + SLS": (1.92, None, PUBLISHED),
        "XLS-R + Conformer-TCM": (2.06, None, _66800),
        "XLS-R + AASIST": (2.85, None, PUBLISHED),
    },
    "in-the-wild": {
        "Nes2Net-X": (5.52, None, WHOLE),
        "XLSR-Mamba": (6.71, None, PUBLISHED),
        "XLS-R + SLS": (7.46, None, PUBLISHED),
        "XLS-R + Conformer-TCM": (7.79, None, PUBLISHED),
        "XLS-R + AASIST": (10.46, None, None),
        "AASIST": (43.0, None, None),
        "AASIST-L": (44.5, None, None),
    },
}
COUNTS = {
    "asvspoof19-eval": (7_355, 63_882),
    "asvspoof21-la:eval": (14_816, 133_360),
    "asvspoof21-df:eval": (14_869, 519_059),
    "in-the-wild": (19_963, 11_816),
}


@pytest.mark.parametrize("name", TABLE)
def test_every_number_is_that_of_its_paper(name):
    known = KNOWN_SETS[name]
    shown = {each.system: (each.eer, each.min_tdcf, each.scored) for each in known.results}
    assert shown == TABLE[name]
    assert (known.trials.bona_fide, known.trials.spoof) == COUNTS[name]


def test_both_names_of_a_set_are_the_same_set():
    assert KNOWN_SETS["asvspoof19:eval"] is KNOWN_SETS["asvspoof19-eval"]
    assert KNOWN_SETS["asvspoof21-la:eval"] is KNOWN_SETS["asvspoof21-la-eval"]
    assert KNOWN_SETS["asvspoof21-df:eval"] is KNOWN_SETS["asvspoof21-df-eval"]
    assert KNOWN_SETS["in-the-wild"] is KNOWN_SETS["itw"]
    others = {"asvspoof19:eval", "asvspoof21-la-eval", "asvspoof21-df-eval", "itw"}
    assert set(KNOWN_SETS) == {*TABLE, *others}


def test_only_results_of_the_same_length_are_next_to_ours():
    known = KNOWN_SETS["asvspoof21-la:eval"]

    def systems(scored):
        return [result.system for result in of_the_same_length(known, scored)]

    assert systems(PUBLISHED) == ["XLS-R + AASIST", "Nes2Net-X", "XLS-R + SLS"]
    assert systems(_66800) == ["XLSR-Mamba", "XLS-R + Conformer-TCM"]
    assert systems(ScoredLength(16000, 1_000_000)) == systems(None) == []
    in_the_wild = KNOWN_SETS["in-the-wild"]
    whole = of_the_same_length(in_the_wild, ScoredLength(16000, 1_000_000))
    assert [result.system for result in whole] == ["Nes2Net-X"]
