"""Files of figures are the same for the same numbers; what cannot be written is refused."""

import re

import pytest

from asdf.errors import UsageError
from asdf.report.plots import det_plot, line_style, save_figure
from asdf.tables.panels import Line
from tests.conftest import ROOT
from tests.unit.report.plots.conftest import ONE


@pytest.mark.parametrize(
    ("suffix", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_the_same_numbers_give_the_same_file(tmp_path, suffix, magic):
    for name in ("a", "b"):
        save_figure(det_plot(ONE), tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"a.{suffix}").read_bytes(), (tmp_path / f"b.{suffix}").read_bytes()
    assert first.startswith(magic) and first == second


def test_another_suffix_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"plots are written as pdf, png, svg"):
        save_figure(det_plot(ONE), tmp_path / "det.doc")
    assert not list(tmp_path.iterdir())


def test_nine_curves_have_nine_colours_on_the_page_and_in_plots():
    # All spoofs and eight attacks are nine curves.
    lines = [Line((), index) for index in range(9)]
    plotted = [line_style(line)["color"] for line in lines]
    assert len(set(plotted)) == 9
    drawn = [line.colour for line in lines]
    assert len(set(drawn)) == 9
    style = (ROOT / "asdf/report/page/style.css").read_text(encoding="utf-8")
    for part in ("light", "dark"):
        column = 0 if part == "light" else 1
        colours = re.findall(r"--c\d: light-dark\((#\w+), (#\w+)\);", style)
        assert len({pair[column] for pair in colours}) == 9, part
    for css in drawn:
        assert f".{css} {{ stroke:" in style
