"""Summaries as text, CSV, JSON and LaTeX."""

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from asdf.evaluation import AsvScores, Scores
from asdf.metrics.summary import summarise
from asdf.report.exports import csv_with_seeds, json_with_seeds, over_seeds_of, to_csv
from asdf.report.paper_tables import summary_text, systems_text, to_latex
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.trials.how_scored import PUBLISHED, HowScored

IDS, LABELS = list("abcdefghi"), np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])
VALUES = np.array([2, 1, 0.5, -0.2, -1, -2, 0.1, 0.6, -3])
ATTACKS = ["-"] * 4 + ["A_1", "A_1", "A_1", "A_2", "A_2"]
ASV = AsvScores(np.array([2.0, 3, -1]), np.array([-2.0, -3, 0]), np.array([2.0, -2]))


def summarised(name: str, attacks: list[str], values=VALUES, set_name: str = "", **options):
    scores = Scores(IDS, LABELS, values, columns={"attack": attacks})
    return summarise(name, set_name, scores, **{"replicates": 0, **options})


MEASURED = {"set_name": "dev", "replicates": 50}
FIRST = summarised("first_one", ATTACKS, asv=ASV, **MEASURED)
BETTER = VALUES + 0.8 * LABELS
SECOND = summarised("second", ATTACKS, BETTER, scored=HowScored(PUBLISHED, "bf16"), **MEASURED)


def test_text_of_one_system():
    plain = summarised("system", ATTACKS)
    assert summary_text(plain) == (
        "system\n"
        "  trials         9: 4 bona fide, 5 spoof\n"
        "  scored         not known\n"
        "  EER            22.500 %\n"
        "  EER threshold  0.1000\n"
        "  minDCF         0.4000\n"
        "  actDCF         0.4000\n"
        "  Cllr           0.6364 bits\n"
        f"  min Cllr       {plain.min_cllr:.4f} bits\n"
        "  AUC            0.8500\n"
        "\n"
        "  by attack: spoofs of each value against all bona fide trials\n"
        "attack   EER %  minDCF  actDCF    Cllr  bona fide  spoof\n"
        f"A_1     29.167  {_numbers(plain.conditions[0].result)}          4      3\n"
        f"A_2     50.000  {_numbers(plain.conditions[1].result)}          4      2\n"
        f"mean    39.583  {_numbers(plain.average('attack'))}\n"
        f"pooled  22.500  {_numbers(plain.result)}          4      5\n"
    ).rstrip("\n")


def _numbers(of):
    return f"{of.min_dcf:.4f}  {of.act_dcf:.4f}  {of.cllr:.4f}"


def rows_of(text: str) -> dict[str, list[list[str]]]:
    """The words of each line, by the first of them."""
    rows: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if line.strip():
            name, *words = line.split()
            rows.setdefault(name, []).append(words)
    return rows


def test_systems_are_rows_and_the_leading_one_is_marked():
    text = systems_text([FIRST, SECOND], {"eer": 1})
    rows = rows_of(text)
    better = f"{100 * SECOND.result.eer:.3f}*"
    eer = FIRST.intervals.eer
    bounds = [f"{100 * eer.low:.3f}", "..", f"{100 * eer.high:.3f}"]
    assert rows["first_one"][0][:4] == ["22.500", *bounds]
    assert rows["second"][0][0] == better
    assert text.count("*") == 2
    assert text.endswith("* significantly better than the next one (paired bootstrap, p < 0.05)")
    assert rows["first_one"][-1] == ["29.167", "50.000", "39.583"]
    assert "not known" in text and "first 64,600 samples" in text
    assert max(map(len, text.splitlines())) <= 80


def test_eighty_columns_hold_many_systems_with_long_names():
    names = [f"output/experiments/2026/xlsr300m-asp_seed{i}-lr1e-4-{'x' * 40}" for i in range(8)]
    systems = [replace(FIRST, name=name) for name in names]
    text = systems_text(systems, {})
    assert max(map(len, text.splitlines())) <= 80
    first_block = text.split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in first_block[1:]] == [f"seed{i}" for i in range(8)]


def test_an_attack_called_as_the_pooled_result_is_not_it():
    attacks = ["-"] * 4 + ["pooled"] * 3 + ["mean"] * 2
    both = [summarised(name, attacks) for name in "ab"]
    rates = {each.value: f"{100 * each.result.eer:.3f}" for each in both[0].conditions}
    rows = rows_of(summary_text(both[0]))
    assert rows["'pooled'"][0][0] == rates["pooled"]
    assert rows["pooled"][0][0] == "22.500"
    assert rows["'mean'"][0][0] == rates["mean"]
    head = next(line for line in systems_text(both, {}).splitlines() if "'pooled'" in line)
    assert head.split() == ["'mean'", "'pooled'", "mean"]
    heading = next(line for line in to_latex(both, {}).splitlines() if "'pooled'" in line)
    assert heading == r"System & 'mean' & 'pooled' & pooled \\"


def test_json_has_all_digits():
    first, second = json.loads(json_with_seeds([FIRST, SECOND], OverSeeds()))
    assert (first["system"], first["set"]) == ("first_one", "dev")
    assert {name: first[name] for name in asdict(FIRST.result)} == asdict(FIRST.result)
    assert first["tandem"] == asdict(FIRST.tandem)
    assert second["tandem"] is None
    eer = FIRST.intervals.eer
    assert first["intervals_95"]["trials"]["eer"] == {"low": eer.low, "high": eer.high}
    assert first["intervals_95"]["speakers"] is None
    names = ("column", "value", "against", "eer")
    shown = [tuple(condition[name] for name in names) for condition in first["conditions"]]
    assert shown == [("attack", each.value, "all", each.result.eer) for each in FIRST.conditions]
    assert first["means"] == {"attack": asdict(FIRST.average("attack"))}
    assert first["warnings"] == [finding.message for finding in FIRST.findings]


def test_a_csv_names_the_set_of_several_seeds():
    both = [FIRST, SECOND]
    over = over_seeds_of(both, [Path("a.txt"), Path("b.txt")], ["net", "net"], None, 0)
    rows = list(csv.DictReader(io.StringIO(csv_with_seeds(both, over))))
    assert [(row["system"], row["kind"], row["set"]) for row in rows[-2:]] == [
        ("net", "seed mean", "dev"),
        ("net", "seed deviation", "dev"),
    ]


def test_no_text_of_a_csv_is_a_formula():
    attacks = ["-"] * 4 + ['=HYPERLINK("http://x","y")'] * 3 + ["@SUM(1)", "-2+3"]
    summary = summarised("+1+1", attacks, set_name="=a")
    rows = list(csv.DictReader(io.StringIO(to_csv([summary]))))
    assert (rows[0]["system"], rows[0]["set"]) == ("'+1+1", "'=a")
    values = ["'-2+3", '\'=HYPERLINK("http://x","y")', "'@SUM(1)"]
    assert [row["value"] for row in rows[1:4]] == values
    assert float(rows[0]["eer"]) == summary.result.eer
