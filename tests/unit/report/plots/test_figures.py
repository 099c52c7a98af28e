"""Files of figures are the same for the same numbers; what cannot be written is refused."""

import numpy as np
import pytest

from asdf.errors import UsageError
from asdf.report.drawing import page_colours
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
    looks = (ROOT / "asdf/report/page/plots.css").read_text(encoding="utf-8")
    of_page = [page_colours()[css] for css in drawn]
    assert [light for light, _ in of_page] == plotted
    assert len({dark for _, dark in of_page}) == 9
    for css in drawn:
        assert f".{css} {{ stroke: var(--{css});" in looks


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""
    shades = []
    for colour in (one, other):
        values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        shades.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(shades) / min(shades)


@pytest.mark.parametrize("column", [0, 1], ids=["light", "dark"])
def test_texts_and_lines_stand_out(column):
    colours = {name: pair[column] for name, pair in page_colours().items()}
    for ground in ("page", "tint"):
        for name in ("text", "soft", "link", "alarm"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    lines = [f"c{index}" for index in range(9)] + ["bona-fide", "spoof", "warning", "neutral"]
    for name in lines:
        assert contrast(colours[name], colours["page"]) >= 3, name
    # The words of a filled button.
    assert contrast(colours["page"], colours["link"]) >= 4.5
