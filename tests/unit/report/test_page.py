"""The page as text: whole without a script, escaped, and the same each time."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.evaluation import Finding, Result, Scores
from asdf.metrics.detection import DetCurve
from asdf.metrics.summary import Summary
from asdf.report import report_page
from asdf.report.curves import Histogram
from asdf.report.drawing import as_json
from asdf.report.gathering import Measurement, fold_findings
from asdf.report.html_page import render
from asdf.report.result_tables import published_results
from asdf.tables.renderers import heat_step
from asdf.tasks.studies.generalisation import KNOWN_SETS, comparable
from asdf.trials.how_scored import PUBLISHED, HowScored, ScoredLength
from tests.unit.report.folders import HOSTILE, gathered_of, make_run

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
    return report_page(gathered_of(*runs, replicates=50))


def data_of(page: str) -> dict:
    data = r'<script type="application/json" id="data">(.*?)</script>'
    return json.loads(re.search(data, page, re.S)[1])


def test_the_best_is_marked_only_where_a_test_says_so(page, tmp_path):
    # The verdict is of the set by which systems are sorted, the last one.
    assert re.search(r'<h1 class="verdict ">On eval, ', page)
    rows = re.findall(r"<tr>.*?</tr>", page[page.index('class="overview"') :])[1:3]
    assert [row.count(">best<") for row in rows] == [2, 0]
    assert "significantly lower than that of the other system, over" in page
    untested = report_page(gathered_of(make_run(tmp_path / "a"), make_run(tmp_path / "b", shift=4)))
    body = untested[: untested.index("<script type")]
    # The EER in the overview, and EER and minDCF in the table of metrics, of each of two sets.
    assert ">best<" not in body and body.count(">lowest<") == 2 * 3
    rows = re.findall(r"<tr>.*?</tr>", untested[untested.index('class="overview"') :])[1:3]
    assert [row.count(">lowest<") for row in rows] == [2, 0]
    assert "lower than that of the other system, which may be chance, over" in untested


def test_ties_are_not_marked(tmp_path):
    twins = [make_run(tmp_path / name, shift=3) for name in ("a", "b")]
    page = report_page(gathered_of(*twins, replicates=20))
    body = page[: page.index("<script type")]
    assert ">best<" not in body and ">lowest<" not in body
    assert ", equal to that of the other system." in body
    body = report_page(gathered_of(*twins, make_run(tmp_path / "c", shift=3), replicates=20))
    assert "the lowest of 3 systems (as 2 others), which may be chance" in body
    leader = make_run(tmp_path / "d", shift=6)
    page = report_page(gathered_of(*twins, leader, replicates=50))
    assert "significantly the lowest of 3 systems." in page


def test_the_page_is_the_same_each_time(page, runs):
    assert report_page(gathered_of(*runs, replicates=50)) == page


def test_it_is_nested_rightly_and_ids_are_its_own(page):
    reader = read(page)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"] for name, attributes in reader.tags if name == "a"}
    assert targets == {f"#{anchor}" for anchor in ids if anchor != "data"}
    levels = [int(name[1]) for name, _ in reader.tags if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_names_stay_text(page):
    assert HOSTILE not in page
    reader = read(page)
    assert any(HOSTILE in text for text in reader.text)
    names = {name for _, attributes in reader.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert len([name for name, _ in reader.tags if name == "script"]) == 3
    [large, small] = data_of(page)["sets"]["dev"]
    assert list(large["curves"]) == ["", HOSTILE, "A01"]
    assert list(small["curves"]) == ["", "A01", "A02", "A03"]


def test_the_policy_lets_run_what_is_in_the_page_and_nothing_else(page):
    tags = [attributes for _, attributes in read(page).tags]
    policy = next(a["content"] for a in tags if a.get("http-equiv") == "Content-Security-Policy")
    own = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, re.S)
    digests = [hashlib.sha256(text.encode()).digest() for text in own]
    style, theme, script = (f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
    sources = f"style-src {style}; script-src {theme} {script}; img-src blob:"
    assert policy == f"default-src 'none'; {sources}; base-uri 'none'"
    # Before anything is painted.
    assert page.index("dataset.theme") < page.index("<body")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not [attributes for attributes in tags if "style" in attributes or "src" in attributes]


def test_training_is_in_the_data(page):
    run = data_of(page)["runs"][0]
    assert run == {
        "name": "small",
        "loss": [1, 1, 2, 0.5],
        "rate": [1, 0.001, 2, 0.0005],
        "eer": {"dev": [1, 50, 2, 25]},
        "losses": {"dev": [1, 1.5, 2, 0.75]},
        "term": {},
    }


def test_findings_are_at_the_top(tmp_path):
    gathered = gathered_of(make_run(tmp_path / "net", shift=-4))
    assert [finding.level for finding in gathered.findings] == ["warning"] * 2
    page = report_page(gathered)
    assert "the scores look inverted" in page[: page.index("<main>")]
    assert "Settings in which the runs differ" not in page
    assert "Several networks of one run" not in page


def test_a_run_without_scores_has_a_page(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "settings.py").write_text("recipe.seed = 1  # default\n")
    gathered = gathered_of(tmp_path / "net")
    assert [(known.where, known.level) for known in gathered.findings] == [("net", "note")]
    text = " ".join(read(report_page(gathered)).text)
    assert "nothing has been scored yet" in text
    assert "0 set, 1 defaults" in text


def test_equal_warnings_are_one_with_the_numbers_below(tmp_path, capsys):
    runs = [make_run(tmp_path / f"r{i}", shift=-3 - i) for i in range(3)]
    page = report_page(gathered_of(*runs))
    top = page[page.index('class="findings"') : page.index("<main>")]
    assert top.count("<summary>") == 1
    assert '<span class="where">6 results</span>: the scores look inverted</summary>' in top
    assert top.count("<li>r") == 6
    output = ["--output", str(tmp_path / "r.html")]
    assert main(["report", *map(str, runs), *output, "--replicates", "0"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "inverted" in line]
    assert line.startswith("warning: r0 on dev, r0 on eval, r1 on dev and 3 more: the scores look")


def test_messages_fold_where_they_differ_in_numbers_only():
    rows = ("warning 3.5 a", "warning 1.25 b", "error 3.5 c", "warning 3.5 d")
    parts = [row.split() for row in rows]
    same = [Finding(level, f"{share} % tie", where) for level, share, where in parts]
    first, second = fold_findings(same)
    assert (first.level, first.where, first.words) == ("warning", "3 results", "such as: 3.5 % tie")
    assert first.as_line() == "warning: a, b, d: 3.5 % tie"
    assert (second.level, second.where, second.words) == ("error", "c", "3.5 % tie")


def test_few_trials_are_grey_and_in_no_sentence(tmp_path):
    """A01 has 57 spoofs; A02 has 3, which are the hardest ones."""
    run = make_run(tmp_path / "net", sets=("dev",), attacks=("A01",) * 19 + ("A02",))
    path = run / "scores" / "epoch.2" / "dev.txt"
    trials = (run / "trials" / "dev.tsv").read_text().splitlines()
    hard = {line.split("\t")[0] for line in trials if "\tA02" in line}
    lines = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
    moved = [f"{name} {9 if name.split()[0] in hard else score}\n" for name, score in lines]
    path.write_text("".join(moved))
    page = report_page(gathered_of(run, replicates=20))
    assert "Its hardest attack" not in page
    cell = re.search(r'<td class="few n" data-value="100.0" title="([^"]*)">100.00</td>', page)
    assert cell[1].startswith("95 % interval ")
    few = "fewer than 20 of a class: too few to say anything"
    assert cell[1].endswith(f"40 bona fide and 3 spoof trials; {few}")
    assert re.search(r'<td class="h\d n" data-value="[\d.]+" title="95 % [^"]*57 spoof', page)


def test_the_colour_of_an_eer():
    rates = [0, 0.00499, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.3999, 0.4, 1]
    assert list(map(heat_step, rates)) == [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8]


def test_plots_stand_in_the_page_without_a_script(page, runs):
    body = page[: page.index("<script type")]
    drawing = r'<svg viewBox="[^"]*" role="img" aria-label="([^"]*)" class="(\w+)"'
    drawings = re.findall(drawing, body)
    of_set = "det histogram histogram"
    kinds = f"effect effect {of_set} {of_set} loss rate eer"
    assert " ".join(kind for _, kind in drawings) == kinds
    large, small = (100 * each.result.eer for each in gathered_of(*runs).summaries_on("dev"))
    label = f"DET curves on dev. large: EER {large:.2f} %; small: EER {small:.2f} %"
    assert drawings[2][0] == label
    assert body.count('class="marker') > 4
    label, _ = drawings[8]
    assert label == (
        "Loss (marked: on dev) by epoch. small: 0.5 at epoch 2; large: 0.5 at epoch 2; "
        "small: 0.75 on dev at epoch 2; large: 0.75 on dev at epoch 2"
    )
    loss = body[body.index(f'aria-label="{label}"') :]
    loss = loss[: loss.index("Learning rate by epoch")]
    # Two runs: lines of training and of the set, and a mark for each evaluation.
    assert len(re.findall(r'class="line c\d"', loss[: loss.index('class="frame"')])) == 4
    epochs = ("epoch 1: 1.5 on dev", "epoch 2: 0.75 on dev")
    words = [f"{name}, {epoch}" for name in ("small", "large") for epoch in epochs]
    assert re.findall(r"<title>(.*?)</title>", loss) == words


def test_title_and_command_of_the_page(runs, tmp_path, capsys):
    out = tmp_path / "a b.html"
    words = ["report", str(runs[0]), "--replicates", "0", "--output", str(out)]
    assert main([*words, "--title", "A <title>"]) == 0
    page = out.read_text()
    assert "<title>A &lt;title&gt;</title>" in page
    assert f"<code>python -m asdf report {runs[0]} --replicates 0 --output " in page
    assert "1 system · trials, bona fide + spoof: dev 40 + 60; eval 40 + 60" in page


def test_how_trainings_ended(page, tmp_path):
    ended = "ended after 2 epochs (network.max_epochs)"
    assert f"<strong>small</strong>, <strong>large</strong>: {ended}" in page
    runs = [make_run(tmp_path / f"r{i}", sets=("dev",), epochs=(1,)) for i in range(5)]
    for run in runs[:4]:
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:-1]))
    many = report_page(gathered_of(*runs))
    assert "<summary>4 runs: still running, or killed</summary>" in many
    assert "<details><summary>Started 2026" in many
    assert "<details open><summary>Started 2026" in page


def test_long_names_are_cut_in_the_middle_and_whole_for_the_pointer(tmp_path):
    names = [f"xlsr300m-{'x' * 30}-seed{i}-{'y' * 30}" for i in range(2)]
    page = report_page(gathered_of(*(make_run(tmp_path / n, sets=("dev",)) for n in names)))
    assert f'data-value="{names[0]}" title="{names[0]}">seed0</th>' in page
    assert data_of(page)["labels"] == {names[0]: "seed0", names[1]: "seed1"}


def test_only_the_best_of_many_systems_are_ticked(tmp_path):
    few = {"sets": ("dev",), "epochs": (1,)}
    runs = [make_run(tmp_path / f"r{i:02d}", shift=1 + i / 2, **few) for i in range(10)]
    gathered = gathered_of(*runs)
    page = report_page(gathered)
    data = data_of(page)
    eers = {known.system: known.summary.result.eer for known in gathered.measurements}
    assert data["systems"] == sorted(eers, key=eers.get)
    assert data["ticked"] == data["systems"][:8]
    assert page[: page.index("<script type")].count('class="histogram"') == 8


def test_json_holds_no_sign_that_ends_an_element():
    text = as_json({HOSTILE: [1.5, HOSTILE]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {HOSTILE: [1.5, HOSTILE]}
    with pytest.raises(ValueError, match="JSON"):
        as_json(float("nan"))


def test_published_results_are_those_of_the_same_trials():
    for name, known in KNOWN_SETS.items():
        assert comparable(name, known.trials.bona_fide, known.trials.spoof) is known
        assert comparable(name, known.trials.bona_fide, known.trials.spoof + 1) is None
        rates = [result.eer for result in known.results]
        assert rates == sorted(rates)
    assert comparable("asvspoof21-la", 14_816, 133_360) is None


def published_next_to(*lengths: ScoredLength | None) -> str:
    """Return what the page says of the literature on ASVspoof 2021 LA next to such systems."""
    known = KNOWN_SETS["asvspoof21-la:eval"]
    result = Result(0.1, 0.0, 0.1, 0.1, 0.1, known.trials.bona_fide, known.trials.spoof)
    scores = Scores(["a", "b"], np.array([1, 0]), np.array([1.0, 0.0]))
    measures = {"curve": DetCurve.of_scores(scores), "result": result, "auc": 0.9, "min_cllr": 0.1}
    summary = Summary(name="net", set="asvspoof21-la:eval", scores=scores, **measures)
    counts = Histogram(0, 1, [1], {"": [1]})
    measured = []
    for length in lengths:
        of_length = replace(summary, scored=HowScored(length))
        measured.append(Measurement(0, "net", "epoch.1", of_length, [], {}, counts))
    literature = published_results("asvspoof21-la:eval", measured)
    return render("literature.html", literature=literature)


def test_published_results_are_next_to_ours_only_where_the_length_agrees():
    shown = published_next_to(PUBLISHED)
    assert "XLS-R + AASIST" in shown and "Nes2Net-X" in shown
    assert "XLSR-Mamba" not in shown
    assert shown.count("first 64,600 samples") == 3
    assert "2 more were scored from other lengths (first 66,800 samples)." in shown
    other = published_next_to(ScoredLength(16000, 1_000_000))
    assert "Nes2Net-X" not in other
    lengths = "other lengths of the recordings (first 64,600 samples; first 66,800 samples)"
    assert f"they were scored from {lengths} than what was measured here (whole, up to" in other
    assert "Nes2Net-X" not in published_next_to(None)
    assert "measured here (not known)" in published_next_to(None)
    # Of several systems, each has the results of its length next to it.
    assert published_next_to(PUBLISHED, None) == shown


def test_results_over_other_trials_are_not_compared_with_published_ones(tmp_path):
    page = report_page(gathered_of(make_run(tmp_path / "net", sets=("in-the-wild",))))
    assert "they are over 19,963 bona fide and 11,816 spoof trials" in page
    assert "Nes2Net" not in page


def test_the_command_writes_the_page(tmp_path, runs, capsys):
    assert main(["report", str(runs[0]), "--replicates", "20"]) == 0
    page = runs[0] / "results" / "report.html"
    assert f"written to {page}" in capsys.readouterr().out
    assert "<title>Results of small</title>" in page.read_text()
    page.unlink()
    both = tmp_path / "both.html"
    words = ["report", str(runs[0].parent), "--output", str(both), "--replicates", "0"]
    assert main([*words, "--networks", "all"]) == 0
    assert "Several networks of one run are shown" in both.read_text()
    systems = [f"{name} epoch.{epoch}" for name in ("large", "small") for epoch in (2, 1)]
    assert data_of(both.read_text())["systems"] == systems


def test_the_command_asks_where_to_write_of_several_runs(runs, capsys):
    assert main(["report", *map(str, runs)]) == 2
    assert "--output" in capsys.readouterr().err
    assert main(["report", str(runs[0]), "--replicates", "5"]) == 2
    assert main(["report", str(runs[0] / "nothing")]) == 1
