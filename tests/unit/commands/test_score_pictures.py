"""Scores over time as text and as SVG."""

from xml.etree import ElementTree

import pytest

from asdf.commands.score_plots import svg_plot, text_plot
from asdf.scoring.scored import WindowScore


def windows(*scores: float) -> list[WindowScore]:
    return [
        WindowScore(2.0 * position, 2.0 * position + 4, score)
        for position, score in enumerate(scores)
    ]


def test_text_plot():
    assert text_plot(windows(0, 3, 6)).splitlines() == [
        "       6.00 |             ██████",
        "            |             ██████",
        "            |             ██████",
        "            |       ████████████",
        "            |       ████████████",
        "       0.00 | ▁▁▁▁▁▁████████████",
        "              0:00          0:08",
    ]


def test_the_threshold_is_a_dotted_row():
    rows = text_plot(windows(0, 1, 6), threshold=5.5).splitlines()
    assert rows[0].endswith("| ············██████")
    assert "·" not in "".join(rows[1:])


def test_a_short_dip_shows_among_many_windows():
    scores = [1.0] * 5000
    scores[1234] = -8.0
    rows = text_plot(windows(*scores)).splitlines()
    assert len(rows[0]) <= 80
    assert rows[0].count(" ", rows[0].index("|") + 2) == 1
    assert rows[-1].endswith("166:42")


def test_equal_scores_have_a_range():
    assert "1.50" in text_plot(windows(0.5))
    assert "0:04" in text_plot(windows(0.5))


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_svg_plot(threshold):
    content = svg_plot(windows(-1, 2, 3), 'a<b>&"\x07.wav', "LLR", threshold)
    root = ElementTree.fromstring(content)
    # 8 s over 741 points from 45 on, windows at 2, 4 and 6 s; 172 points high, scores from 3 to -1.
    assert paths(root, "line c0") == ["M230.2,198.0L415.5,69.0L600.8,26.0"]
    texts = [element.text for element in root.iter(f"{SPACE}text")]
    assert 'a<b>&"\\x07.wav' in texts
    assert "LLR over time (minutes:seconds)" in texts
    assert {"−1", "0", "1", "2", "3", "0:00", "0:05"} <= set(texts)
    dashed = paths(root, "line c0 threshold")
    assert dashed == ([] if threshold is None else ["M45.0,133.5L786.0,133.5"])


SPACE = "{http://www.w3.org/2000/svg}"


def paths(root: ElementTree.Element, css: str) -> list[str | None]:
    return [path.get("d") for path in root.iter(f"{SPACE}path") if path.get("class") == css]


def test_the_lowest_window_and_the_threshold_are_named_below_the_axes():
    root = ElementTree.fromstring(svg_plot(windows(2, -1.25, 3), "a.wav", "score", 0.5))
    texts = {element.text: element for element in root.iter(f"{SPACE}text")}
    # The second of three windows of 4 s every 2 s.
    for words in ("lowest: -1.25, 0:02 to 0:06", "threshold 0.5"):
        assert float(texts[words].get("y")) > 240
    assert "score (higher: more bona fide)" in texts
    marks = [p for p in root.iter(f"{SPACE}path") if p.get("class") == "marker c0 lowest"]
    # The second window, whose middle is at 4 of 8 s, at the bottom of the plot.
    assert [mark.get("transform") for mark in marks] == ["translate(415.5,198.0)"]


def test_no_text_covers_the_curve():
    root = ElementTree.fromstring(svg_plot(windows(2, -1.25, 3), "a.wav", "score", 0.5))
    for text in root.iter(f"{SPACE}text"):
        # Letters are 12 pixels high; the axes are from 26 to 198, and from 45 on.
        if text.get("x") is None:
            continue
        beside = float(text.get("x")) <= 45 and text.get("text-anchor") == "end"
        assert beside or not 16 < float(text.get("y")) < 210, text.text
        # A white rim would cover what it lies on.
        assert text.get("stroke") is None
