"""LaTeX tables: their text, and that TeX sets them without an overfull box."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from asdf.report.paper_tables import to_latex
from tests.unit.report.test_tables import FIRST, SECOND, summarised

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


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex on this machine")
def test_tex_sets_it_without_an_overfull_box(tmp_path):
    attacks = ["-"] * 4 + ["A07", "<b>", "x^2~y", "VALL-E_X", "Diffusion_Vocoder-MELGAN" * 3]
    five = summarised("w", attacks, replicates=50).conditions
    conditions = [replace(one, value=f"{one.value}{i}") for i, one in enumerate(five * 4)]
    systems = [replace(FIRST, name=name, conditions=tuple(conditions)) for name in LONG]
    document = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    table = to_latex(systems, {"eer": 0, "min_dcf": 3})
    (tmp_path / "t.tex").write_text(f"{document}{table}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    log = (tmp_path / "t.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert re.findall(r"Overfull \\hbox.*", log) == []
