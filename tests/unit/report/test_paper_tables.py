"""Tables of runs for papers: means and deviations over seeds, bold where a test says so."""

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.report import runs_to_latex
from asdf.tables.renderers import latex_text
from asdf.tasks.studies.seed_results import seed_sentences
from tests.unit.report.folders import gathered_of
from tests.unit.report.seeded import make_configurations, make_seeded_run
from tests.unit.report.test_effects import eer_of


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return make_configurations(tmp_path_factory.mktemp("runs"), good_net=3, bad_net=1)


def cells_of(latex: str) -> list[list[str]]:
    rows = []
    for line in latex.splitlines():
        if line.endswith("\\\\"):
            rows.append([cell.strip() for cell in line.removesuffix("\\\\").split(" & ")])
    return rows


def test_the_command_writes_a_row_per_configuration(folders, tmp_path, capsys):
    words = ["--output", tmp_path / "p.html", "--latex", tmp_path / "t.tex", "--replicates", 100]
    assert main(["report", *map(str, [*folders, *words])]) == 0
    assert f"written to {tmp_path / 't.tex'}" in capsys.readouterr().out
    latex = (tmp_path / "t.tex").read_text()
    head, good, bad = cells_of(latex)
    assert head == ["System", "Seeds", "eval"]
    eers = 100 * np.array(list(map(eer_of, folders)))
    mean, deviation = eers[:3].mean(), eers[:3].std(ddof=1)
    assert good == ["good\\_net-seed*", "3", f"\\textbf{{{mean:.2f}}} $\\pm$ {deviation:.2f}"]
    assert bad[2] == f"{eers[3:].mean():.2f} $\\pm$ {eers[3:].std(ddof=1):.2f}"
    assert latex.startswith("% \\usepackage{booktabs}\n")
    for word in ("toprule", "midrule", "bottomrule"):
        assert latex.count(f"\\{word}") == latex.count("\\begin{tabular}{lrr}") == 1
    assert "{\\footnotesize bona fide + spoof trials: eval 40 + 60}" in latex
    assert "Welch's test over seeds" in latex
    gathered = gathered_of(*folders, replicates=100)
    (first, second) = gathered.over_seeds.by_set["eval"]
    low, high = 100 * first.eer.interval.low, 100 * first.eer.interval.high
    means = r"95 \% intervals of the means on eval: good\_net-seed* "
    assert f"{means}{low:.2f}--{high:.2f}; bad\\_net-seed* " in latex
    (sentence,) = seed_sentences(gathered.over_seeds)
    assert latex_text(sentence) in latex and "p = " in sentence and second.name in sentence
    assert main(["report", str(folders[0]), "--output", "a.html", "--latex", "./a.html"]) == 2
    assert "are the same file" in capsys.readouterr().err


def test_a_set_that_a_configuration_lacks_is_a_dash(folders, tmp_path):
    other = make_seeded_run(tmp_path / "other", 7, sets=("dev",))
    rows = cells_of(runs_to_latex(gathered_of(*folders[:2], other)))
    assert rows[0] == ["System", "Seeds", "eval", "dev"]
    assert rows[2][1:3] == ["1", "--"]
    assert rows[1][3] == "--"


def test_a_set_that_some_seeds_lack_says_of_how_many_its_mean_is(folders, tmp_path):
    more = make_seeded_run(tmp_path / "good_net-seed7", 7, sets=("eval", "dev"), own__shift=3)
    latex = runs_to_latex(gathered_of(*folders[:3], more))
    head, row = cells_of(latex)
    assert head == ["System", "Seeds", "eval", "dev"]
    assert row[1] == "4"
    assert row[3].endswith(" [1]")
    assert "[n]: of n seeds alone" in latex
