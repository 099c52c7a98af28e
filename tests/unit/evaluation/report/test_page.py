"""The page as text: whole without a script, escaped, and the same each time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from asdf.__main__ import main
from asdf.evaluation import evaluate, read_scores
from asdf.evaluation.report import gather, report_page, runs_in
from asdf.evaluation.report.data import as_json
from asdf.evaluation.report.markup import Cell, Html, markup, table, tag
from asdf.evaluation.report.references import KNOWN_SETS, comparable
from tests.unit.evaluation.report.folders import HOSTILE, make_run

VOID = {"meta", "wbr"}


class Reader(HTMLParser):
    """Takes a page apart; fails where elements are not nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element, line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    first = make_run(base / "small", shift=2)
    second = make_run(base / "large", shift=4, clip_size=16000, attacks=("A01", HOSTILE))
    return [first, second]


@pytest.fixture(scope="module")
def page(runs):
    return report_page(gather(runs_in(runs), replicates=50))


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_tables_hold_the_results_without_a_script(page, runs):
    text = " ".join(read(page).text)
    for run in runs:
        for name in ("dev", "eval"):
            result = evaluate(read_scores(run / "scores" / "epoch.2" / f"{name}.txt"))
            assert f"{100 * result.eer:.2f}" in text
            assert f'data-value="{100 * result.eer!r}"' in page
            assert f"{result.min_dcf:.4f}" in text
    assert "<code>network.<wbr>train_<wbr>clip_<wbr>size<wbr></code>" in page
    assert "run_configs.py:3 (net), over 16000 (default)" in text
    assert "2026-01-02 · ASDF 0.1.0 · commit 012345678 with 1 changed file · host node<1>" in text


def test_the_best_of_each_set_is_told_by_a_word(page):
    rows = re.findall(r"<tr>.*?</tr>", page[page.index('class="overview"') :])[1:3]
    assert [row.count(">best<") for row in rows] == [0, 2]


def test_the_page_is_the_same_each_time(page, runs):
    assert report_page(gather(runs_in(runs), replicates=50)) == page


def test_it_is_nested_rightly_and_ids_are_its_own(page):
    reader = read(page)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"] for name, attributes in reader.tags if name == "a"}
    assert targets == {f"#{one}" for one in ids if one != "data"}
    levels = [int(name[1]) for name, _ in reader.tags if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_names_stay_text(page):
    assert HOSTILE not in page
    reader = read(page)
    assert any(HOSTILE in text for text in reader.text)
    assert not [attributes for _, attributes in reader.tags if any(name.startswith("on") for name in attributes)]
    assert len([name for name, _ in reader.tags if name == "script"]) == 2
    [small, large] = data_of(page)["sets"]["dev"]
    assert list(large["curves"]) == ["", HOSTILE, "A01"]
    assert list(small["curves"]) == ["", "A01", "A02", "A03"]


def test_the_policy_lets_run_what_is_in_the_page_and_nothing_else(page):
    policy = next(a["content"] for _, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; base-uri 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not [a for _, a in read(page).tags if "style" in a or "src" in a]


def test_training_is_in_the_data(page):
    run = data_of(page)["runs"][0]
    assert run == {
        "name": "small",
        "loss": [1, 1, 2, 0.5],
        "course": [],
        "rate": [1, 0.001, 2, 0.0005],
        "eer": {"dev": [1, 50, 2, 25]},
    }


def test_findings_are_told_at_the_top(tmp_path):
    page = report_page(gather(runs_in([make_run(tmp_path / "net", shift=-4)]), replicates=0))
    assert "the scores look turned round" in page[: page.index("<main>")]
    assert "Settings in which the runs differ" not in page
    assert "Several networks of one run" not in page


def test_a_run_without_scores_has_a_page(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "settings.py").write_text("recipe.seed = 1  # default\n")
    text = " ".join(read(report_page(gather(runs_in([tmp_path / "net"])))).text)
    assert "nothing has been scored yet" in text
    assert "0 set, 1 defaults" in text


def test_markup_escapes_text_and_leaves_markup():
    assert markup("<a> & ", Html("<b>"), None, 1) == "&lt;a&gt; &amp; <b>1"
    assert tag("p", "x", class_='a"b', data_value="", aria_label=None) == '<p class="a&quot;b" data-value>x</p>'
    rows = [[Cell("1.50", 1.5)], ["–"]]
    assert table("<t>", ["n"], rows, tools=False) == (
        '<div class="scroll" tabindex="0" role="region" aria-label="&lt;t&gt;"><table><caption>&lt;t&gt;</caption>'
        '<thead><tr><th scope="col" class="n">n</th></tr></thead><tbody>'
        '<tr><th scope="row" class="n" data-value="1.5">1.50</th></tr><tr><th scope="row" class="n">–</th></tr>'
        "</tbody></table></div>"
    )


def test_json_holds_no_sign_that_ends_an_element():
    text = as_json({HOSTILE: [1.5, HOSTILE]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {HOSTILE: [1.5, HOSTILE]}
    with pytest.raises(ValueError, match="JSON"):
        as_json(float("nan"))


def test_published_results_are_those_of_the_same_trials():
    for name, known in KNOWN_SETS.items():
        assert comparable(name, known.bona_fide, known.spoof) is known
        assert comparable(name, known.bona_fide, known.spoof + 1) is None
        assert [one.eer for one in known.results] == sorted(one.eer for one in known.results)
    assert comparable("asvspoof21-la", 14_816, 133_360) is None
    sizes = {name: known.bona_fide + known.spoof for name, known in KNOWN_SETS.items()}
    assert sizes == {
        "asvspoof19-eval": 71_237,
        "asvspoof19:eval": 71_237,
        "asvspoof21-la:eval": 148_176,
        "asvspoof21-df:eval": 533_928,
        "in-the-wild": 31_779,
    }


def test_results_over_other_trials_are_not_held_against_published_ones(tmp_path):
    page = report_page(gather(runs_in([make_run(tmp_path / "net", sets=("in-the-wild",))]), replicates=0))
    assert "they are over 19,963 bona fide and 11,816 spoof trials" in page
    assert "Nes2Net" not in page


def test_the_command_writes_the_page(tmp_path, runs, capsys):
    assert main(["report", str(runs[0]), "--replicates", "20"]) == 0
    page = runs[0] / "results" / "report.html"
    assert f"written to {page}" in capsys.readouterr().out
    assert "<title>Results of small</title>" in page.read_text()
    page.unlink()
    both = tmp_path / "both.html"
    assert main(["report", str(runs[0].parent), "--output", str(both), "--replicates", "0", "--networks", "all"]) == 0
    assert "Several networks of one run are shown" in both.read_text()
    assert data_of(both.read_text())["systems"] == ["large epoch.1", "large epoch.2", "small epoch.1", "small epoch.2"]


def test_the_command_tells_what_looks_wrong(tmp_path, capsys):
    folder = make_run(tmp_path / "net", shift=-2, epochs=(2,), sets=("dev",))
    assert main(["report", str(folder), "--replicates", "0"]) == 0
    assert "warning: net on dev: the scores look turned round" in capsys.readouterr().err


def test_the_command_asks_where_to_write_of_several_runs(runs, capsys):
    assert main(["report", *map(str, runs)]) == 2
    assert "--output" in capsys.readouterr().err
    assert main(["report", str(runs[0]), "--replicates", "5"]) == 2
    assert main(["report", str(runs[0] / "nothing")]) == 1
