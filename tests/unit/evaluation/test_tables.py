"""Summaries as text, CSV, JSON and LaTeX."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict

import numpy as np

from asdf.evaluation import AsvScores, Scores
from asdf.evaluation.exports import to_csv, to_json, to_latex
from asdf.evaluation.summary import summarise
from asdf.evaluation.tables import summary_text, systems_text

IDS, LABELS = list("abcdefghi"), np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])
VALUES = np.array([2, 1, 0.5, -0.2, -1, -2, 0.1, 0.6, -3])
ATTACKS = ["-"] * 4 + ["A_1", "A_1", "A_1", "A_2", "A_2"]
ASV = AsvScores(np.array([2.0, 3, -1]), np.array([-2.0, -3, 0]), np.array([2.0, -2]))
FIRST = summarise("first_one", "dev", Scores(IDS, LABELS, VALUES, ATTACKS), asv=ASV, replicates=50)
SECOND = summarise("second", "dev", Scores(IDS, LABELS, VALUES + 0.8 * LABELS, ATTACKS), replicates=50)


def test_text_of_one_system():
    plain = summarise("system", "", Scores(IDS, LABELS, VALUES, ATTACKS), replicates=0)
    assert summary_text(plain) == (
        "system\n"
        "  trials         9: 4 bona fide, 5 spoof\n"
        "  EER            22.500000000 %\n"
        "  EER threshold  0.1000000000\n"
        "  minDCF         0.4000000000\n"
        "  actDCF         0.4000000000\n"
        "  Cllr           0.6363971065 bits\n"
        f"  min Cllr       {plain.min_cllr:.10f} bits\n"
        "  AUC            0.8500000000\n"
        "\n"
        "  by attack: spoofs of each value against all bona fide trials\n"
        "    attack         EER %        minDCF        actDCF          Cllr  bona fide  spoof\n"
        f"    A_1     29.166666667  {_numbers(plain.conditions[0].result)}          4      3\n"
        f"    A_2     50.000000000  {_numbers(plain.conditions[1].result)}          4      2\n"
        f"    mean    39.583333333  {_numbers(plain.average('attack'))}\n"
        f"    pooled  22.500000000  {_numbers(plain.result)}          4      5\n"
    ).rstrip("\n")


def _numbers(of):
    return f"{of.min_dcf:.10f}  {of.act_dcf:.10f}  {of.cllr:.10f}"


def test_text_of_intervals_and_tandem():
    text = summary_text(FIRST)
    assert text.startswith("first_one on dev\n")
    eer, cost = FIRST.intervals.eer, FIRST.intervals.min_dcf
    assert f"22.500000000 %   95 %: {100 * eer.low:.4f} .. {100 * eer.high:.4f} over trials\n" in text
    assert f"0.4000000000   95 %: {cost.low:.5f} .. {cost.high:.5f} over trials\n" in text
    assert f"min t-DCF 2019  {FIRST.tdcf_2019:.10f}\n" in text
    assert f"min t-DCF 2021  {FIRST.tdcf_2021:.10f}\n" in text
    assert "ASV EER         33.333333333 %\n" in text
    assert "ASV threshold   -1.0000000000\n" in text


def test_the_best_of_systems_is_marked():
    lines = systems_text([FIRST, SECOND]).splitlines()
    rows = {line.split("  ")[0]: line.split() for line in lines if line.strip()}
    assert rows["EER %"][-2:] == ["22.500000000", f"{100 * SECOND.result.eer:.9f}*"]
    assert SECOND.result.eer < FIRST.result.eer
    assert rows["AUC"][-2:] == ["0.8500000000", f"{SECOND.auc:.10f}*"]
    # Of a threshold neither way is better, and one value alone is no best one.
    assert "*" not in "".join(rows["EER threshold"] + rows["min t-DCF 2019"])
    assert rows["min t-DCF 2019"][-1] == "-"
    assert rows["A_1"] == ["A_1", "29.166666667", f"{100 * SECOND.conditions[0].result.eer:.9f}*"]
    assert rows["mean"][1] == "39.583333333"


def test_json_has_all_digits():
    first, second = json.loads(to_json([FIRST, SECOND]))
    assert (first["system"], first["set"]) == ("first_one", "dev")
    assert {name: first[name] for name in asdict(FIRST.result)} == asdict(FIRST.result)
    assert first["tandem"] == asdict(FIRST.tandem)
    assert second["tandem"] is None
    assert first["intervals_95"]["trials"]["eer"] == {"low": FIRST.intervals.eer.low, "high": FIRST.intervals.eer.high}
    assert first["intervals_95"]["speakers"] is None
    assert [(one["column"], one["value"], one["against"], one["eer"]) for one in first["conditions"]] == [
        ("attack", one.value, "all", one.result.eer) for one in FIRST.conditions
    ]
    assert first["means"] == {"attack": asdict(FIRST.average("attack"))}
    assert first["warnings"] == [finding.message for finding in FIRST.findings]


def test_csv_has_a_row_a_system_and_condition():
    rows = list(csv.DictReader(io.StringIO(to_csv([FIRST, SECOND]))))
    assert [(row["system"], row["kind"], row["value"]) for row in rows] == [
        (name, kind, value)
        for name in ("first_one", "second")
        for kind, value in (("pooled", ""), ("condition", "A_1"), ("condition", "A_2"), ("mean", ""))
    ]
    assert float(rows[0]["cllr"]) == FIRST.result.cllr
    assert float(rows[0]["tdcf_2021"]) == FIRST.tdcf_2021
    assert float(rows[0]["eer_high"]) == FIRST.intervals.eer.high
    assert (rows[4]["tdcf_2021"], rows[0]["speaker_eer_low"]) == ("", "")
    assert (rows[2]["spoof"], float(rows[2]["eer"])) == ("2", 0.5)


def test_latex():
    text = to_latex([FIRST, SECOND])
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    better = f"{100 * SECOND.result.eer:.2f}"
    assert rf"second & \textbf{{{better}}} & " in text
    assert r"first\_one & 22.50 & 0.4000 & " in text
    assert r"System & A\_1 & A\_2 & pooled \\" in text
    assert r"first\_one & 29.17 & 50.00 & 22.50 \\" in text
    for table in text.split(r"\begin{tabular}")[1:]:
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len({row.count(" & ") for row in rows}) == 1
        assert table.startswith("{l" + "r" * rows[0].count(" & ") + "}")
