"""Source tracing and localisation on the page: exact values, and only where a run has them."""

import json
import re

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.report import report_page
from asdf.report.paper_tables import runs_to_latex
from asdf.report.result_tables import localisation_tables, source_sections
from asdf.tasks.localisation.located_measures import located_result
from asdf.tasks.tracing.source_measures import evaluate_sources, source_result, sources_record
from tests.unit.report.folders import HOSTILE, make_run
from tests.unit.report.folders import gathered_of as gathered
from tests.unit.report.tasks import (
    CLOSED,
    OPEN,
    make_run_of_spoofs,
    traced,
    write_located,
    write_traced,
)
from tests.unit.report.test_page import read


def shown(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in (table.head, *table.rows)]


@pytest.fixture
def run(tmp_path):
    folder = make_run(tmp_path / "net")
    write_traced(folder, {"dev": traced(CLOSED), "eval": traced(OPEN)})
    write_located(folder, "eval")
    return folder


def test_the_tables_of_sources_have_values_by_hand(run):
    dev, evaluated = source_sections(gathered(run).tasks.traced)
    head, row = shown(dev["results"])
    assert head == [
        *("System", "Network", "Column", "Classes", "Known", "Unknown"),
        *("Accuracy %", "Balanced %", "Macro-F1 %"),
    ]
    assert row == ["net", "epoch.2", "attack", "3", "5", "0", "60.00", "50.00", "43.33"]
    head, row = shown(evaluated["results"])
    assert head[-3:] == ["Unknown EER %", "OSCR %", "Rejected by"]
    assert row[4:] == ["5", "2", "60.00", "50.00", "43.33", "45.00", "30.00", "probability"]
    (confusion,) = evaluated["confusions"]
    assert "A: called A 1, B 1; B: called B 2; C: called A 1" in confusion["svg"]
    assert shown(confusion["classes"])[2] == ["B", "2", "66.67", "100.00", "80.00"]
    result = evaluate_sources(traced(OPEN), replicates=20)
    interval = result.intervals["oscr"]
    cell = evaluated["results"].rows[0][10]
    assert cell.value == 100 * result.values["oscr"]
    assert cell.interval == f"{100 * interval.low:.2f}–{100 * interval.high:.2f}"


def test_the_table_of_localisation_has_values_by_hand(run):
    record = json.loads((run / "results" / "localisation.json").read_text())[0]
    (table,) = localisation_tables(gathered(run).tasks.located)
    assert table.caption == "Localisation on eval, with 95 % intervals over 8 recordings"
    assert shown(table)[0][2:7] == ["Range EER %", "Point EER %", "Frames of", "F1", "IoU"]
    row = shown(table)[1]
    assert row[:2] == ["net", "epoch.2"]
    # 30 ms of the 40 marked ones are among the 40 spoofed ones, in each of four recordings.
    assert row[4:] == ["20 ms", "0.7500", "0.6000", "0.7500", "0.7500", "0.0000", "dev"]
    assert float(row[2]) == pytest.approx(100 * record["range_eer"], abs=0.005)
    assert float(row[3]) == pytest.approx(100 * record["point_eer"], abs=0.005)
    low, high = record["intervals"]["f1"]
    assert table.rows[0][5].interval == f"{low:.4f}–{high:.4f}"
    write_located(run, "eval", with_intervals=False)
    (table,) = localisation_tables(gathered(run).tasks.located)
    assert table.caption == "Localisation on eval"
    assert shown(table)[1] == row
    assert r"System & Range EER \% & Point EER \% & F1 & IoU \\" in runs_to_latex(gathered(run))


def test_records_are_read_as_they_were_written(run):
    for truths in (CLOSED, OPEN):
        result = evaluate_sources(traced(truths), replicates=20)
        record = sources_record("epoch.2", "eval", result)
        read_back = source_result(json.loads(json.dumps(record)))
        assert sources_record("epoch.2", "eval", read_back) == record
    (record,) = json.loads((run / "results" / "localisation.json").read_text())
    result = located_result(record)
    assert (result.numbers["range_eer"], result.threshold_of) == (record["range_eer"], "dev")
    interval = result.intervals["iou"]
    assert [interval.low, interval.high] == record["intervals"]["iou"]
    assert interval.value == record["iou"]


def test_the_page_has_both_sections_and_is_else_the_page_without_them(run, tmp_path):
    page = report_page(gathered(run))
    reader = read(page)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"source-tracing", "localisation", "confusion-1-0-title"} <= set(ids)
    links = {attributes["href"] for name, attributes in reader.tags if name == "a"}
    assert {"#source-tracing", "#localisation"} <= links
    described = "Rows are the classes of the trials. A: called A 1, B 1; B: called B 2; C: called"
    assert any(text.startswith(described) for text in reader.text)
    # Each label names an element of the page.
    for _, attributes in reader.tags:
        assert set((attributes.get("aria-labelledby") or "").split()) <= set(ids)
    for path in (run / "results").glob("*.json"):
        if path.name != "results.json":
            path.unlink()
    plain = report_page(gathered(run))
    body = plain[plain.index("<body") : plain.index("<script type")]
    for word in ("source-tracing", "localisation", "matrix", "OSCR"):
        assert word not in body
    rest = page
    for begin, end in (('<section id="', "</section>"), ('<li><a href="#', "</li>")):
        part = rf'{begin}(source-tracing|localisation)">.*?{end}\n'
        rest = re.sub(part, "", rest, flags=re.S)
    assert rest == plain


def test_a_run_of_sources_alone_has_a_page_without_errors(tmp_path, capsys):
    folder = make_run_of_spoofs(tmp_path / "tracer")
    known = gathered(folder)
    assert (known.findings, known.sets) == ([], [])
    page = report_page(known)
    text = " ".join(read(page).text)
    assert "No EER: no set has scores of bona fide and of spoofed trials." in text
    assert "No scores yet" not in text and "60.00" in text
    output = tmp_path / "page.html"
    table = tmp_path / "table.tex"
    options = ["--output", str(output), "--latex", str(table), "--replicates", "0"]
    assert main(["report", str(folder), *options]) == 0
    assert "error" not in capsys.readouterr().err
    rows = [line for line in table.read_text().splitlines() if line.startswith("tracer")]
    assert rows[0].startswith("tracer & 60.00 (") and " & 43.33 (" in rows[0]
    assert rows[1].startswith("tracer & 45.00 (") and " & 30.00 (" in rows[1]
    # Without traced sources a set of one class is what it was: an error.
    (folder / "scores" / "epoch.2" / "spoofs.sources.tsv").unlink()
    (finding,) = gathered(folder).findings
    assert (finding.level, finding.where) == ("error", "tracer on spoofs")


def test_networks_are_chosen_as_those_of_detection_are(run):
    write_traced(run, {"eval": traced(OPEN)}, "epoch.1")
    systems = [entry.system for entry in gathered(run).tasks.traced]
    assert systems == ["net epoch.2", "net epoch.2", "net epoch.1"]
    # The best of its evaluations is epoch.2.
    best = gathered(run, choice="best").tasks.traced
    assert [(entry.system, entry.set) for entry in best] == [("net", "dev"), ("net", "eval")]
    # Scores that were removed, or are of a network without a head since, have no result.
    (run / "scores" / "epoch.1" / "eval.sources.tsv").unlink()
    (run / "scores" / "epoch.2" / "eval.frames.npz").unlink()
    tasks = gathered(run).tasks
    assert [entry.system for entry in tasks.traced] == ["net", "net"]
    assert tasks.located == []


def test_several_runs_are_in_the_order_of_their_results(run, tmp_path):
    better = make_run(tmp_path / "better")
    write_traced(better, {"eval": traced(("A", "B", "B", "B", "A"))})
    _, evaluated = source_sections(gathered(run, better).tasks.traced)
    rows = shown(evaluated["results"])[1:]
    assert [row[0] for row in rows] == ["better", "net"]
    assert (rows[0][6], rows[0][9], rows[0][11]) == ("100.00", "–", "–")
    names = [confusion["name"] for confusion in evaluated["confusions"]]
    assert names == ["better on eval", "net on eval"]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"system": "epoch.2"}]', '{"a": 1}'])
@pytest.mark.parametrize("name", ["sources.json", "localisation.json"])
def test_a_damaged_file_is_a_finding_and_the_rest_is_shown(run, name, text):
    (run / "results" / name).write_text(text)
    known = gathered(run)
    (finding,) = [finding for finding in known.findings if finding.level == "error"]
    assert finding.where == "net"
    assert finding.message.startswith(f"{name} is damaged") and "run stage 3" in finding.message
    assert bool(known.tasks.traced) == (name != "sources.json")
    assert len(known.measurements) == 2
    report_page(known)


def test_hostile_classes_stay_text(run):
    write_traced(run, {"other": traced(("A", "A"), (HOSTILE, "A", "B"))})
    page = report_page(gathered(run))
    assert HOSTILE not in page
    assert len([name for name, _ in read(page).tags if name == "script"]) == 3


def test_many_classes_have_no_matrix(tmp_path):
    folder = make_run(tmp_path / "net")
    names = tuple(f"M{number:02}" for number in range(41))
    rng = np.random.default_rng(0)
    scores = traced(CLOSED)
    logits = rng.normal(size=(5, 41))
    many = type(scores).of_logits(scores.ids, "model", names, [names[0]] * 5, logits)
    write_traced(folder, {"eval": many})
    (section,) = source_sections(gathered(folder).tasks.traced)
    (confusion,) = section["confusions"]
    assert confusion["svg"] == ""
    assert len(confusion["classes"].rows) == 41
    read(report_page(gathered(folder)))
