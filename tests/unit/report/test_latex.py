"""LaTeX tables: their text, and that TeX sets them without an overfull box."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from asdf.evaluation import Scores
from asdf.metrics.summary import summarise
from asdf.report.paper_tables import to_latex
from tests.unit.report.test_tables import FIRST, IDS, LABELS, SECOND, VALUES

LONG = [f"output/exp_2026/xlsr300m-asp_seed{i}&50%-{'Nes2Net' * 6}/epoch.{i}" for i in range(8)]


def cells(text: str) -> list[list[str]]:
    return [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if " & " in line]


def test_values_have_their_intervals_in_brackets():
    rows = cells(to_latex([FIRST, SECOND], {"eer": 1}))
    first, second = FIRST.intervals, SECOND.intervals
    assert rows[0][:3] == ["System", r"EER \%", "minDCF"]
    assert rows[1][:3] == [
        r"first\_one",
        f"22.50 ({100 * first.eer.low:.2f}--{100 * first.eer.high:.2f})",
        f"0.4000 ({first.min_dcf.low:.4f}--{first.min_dcf.high:.4f})",
    ]
    better = f"{100 * SECOND.result.eer:.2f}"
    bounds = f"({100 * second.eer.low:.2f}--{100 * second.eer.high:.2f})"
    assert rows[2][1] == rf"\textbf{{{better}}} {bounds}"


def test_nothing_is_bold_where_no_system_leads():
    assert r"\textbf" not in to_latex([FIRST, SECOND])


def test_every_table_has_the_rules_of_booktabs_and_as_many_cells_as_columns():
    text = to_latex([FIRST, SECOND])
    tables = text.split(r"\begin{tabular}")[1:]
    assert len(tables) >= 2
    for table in tables:
        assert [table.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1] * 3
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len({row.count(" & ") for row in rows}) == 1
        assert table.startswith("{l" + "r" * rows[0].count(" & ") + "}")


def test_conditions_and_the_pooled_result():
    assert cells(to_latex([FIRST, SECOND]))[-3] == ["System", r"A\_1", r"A\_2", "pooled"]
    assert cells(to_latex([FIRST, SECOND]))[-2] == [r"first\_one", "29.17", "50.00", "22.50"]


def test_an_attack_called_pooled_keeps_its_own_result():
    attacks = ["-"] * 4 + ["pooled"] * 3 + ["b"] * 2
    system = summarise(
        "a", "", Scores(IDS, LABELS, VALUES, columns={"attack": attacks}), replicates=0
    )
    rate = {condition.value: condition.result.eer for condition in system.conditions}["pooled"]
    head, row = cells(to_latex([system]))[-2:]
    assert head == ["System", "b", "'pooled'", "pooled"]
    assert row[2:] == [f"{100 * rate:.2f}", "22.50"]
    assert rate != system.result.eer


def test_the_scored_length_is_named():
    assert "scored: not known" in to_latex([FIRST])
    assert r"{\footnotesize scored: first 64,600 samples, in bf16}" in to_latex([SECOND])
    assert "Scored" in to_latex([FIRST, SECOND]) and "first 64,600 samples" in to_latex(
        [FIRST, SECOND]
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex on this machine")
def test_tex_sets_it_without_an_overfull_box(tmp_path):
    attacks = ["-"] * 4 + ["A07", "<b>", "x^2~y", "VALL-E_X", "Diffusion_Vocoder-MELGAN" * 3]
    wide = summarise(
        "w", "", Scores(IDS, LABELS, VALUES, columns={"attack": attacks}), replicates=50
    )
    conditions = [
        replace(wide.conditions[i % 5], value=f"{wide.conditions[i % 5].value}{i}")
        for i in range(20)
    ]
    systems = [replace(FIRST, name=name, conditions=tuple(conditions)) for name in LONG]
    document = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "t.tex").write_text(
        f"{document}{to_latex(systems, {'eer': 0, 'min_dcf': 3})}\\end{{document}}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    log = (tmp_path / "t.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert re.findall(r"Overfull \\hbox.*", log) == []
