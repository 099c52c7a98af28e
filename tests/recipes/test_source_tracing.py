"""Runs that trace sources: what they write, on any number of processes, and what reads it."""

import json
from xml.etree import ElementTree

import pytest

from asdf.__main__ import main
from asdf.interchange import read_network
from asdf.tasks.tracing.source_scores import read_source_scores

CONFIG = """
traced < normed
paths.system_folder = 'traced'
source.column = 'attack'
network.max_epochs = 1
network.validation_metric = 'source_accuracy'

alone < traced
paths.system_folder = 'alone'
loss.detection_weight = 0.0
source.head = 'cosine'
recipe.training_sets = ('demo-train',)
"""


def test_a_run_traces_attacks_and_measures_it(recipe, capsys, monkeypatch) -> None:
    recipe.add_configs(CONFIG)
    outcome = recipe.call(capsys, "traced").ok()
    assert "source tracing: 3 classes of the column attack: A01 " in outcome.output
    assert "13 of 26 training utterances are of none" in outcome.output
    system = recipe.system("traced")
    monkeypatch.syspath_prepend(recipe.folder)
    network, file = read_network(system / "networks" / "epoch.1.pt", recipe.folder)
    assert file.sources["classes"] == ["A01", "A02", "A03"]
    assert network.class_head.names == ("A01", "A02", "A03")
    path = system / "scores" / "epoch.1" / "demo-eval.sources.tsv"
    traced = read_source_scores(path)
    assert len(traced) == 8 and "A04" in traced.truths and traced.truths.count("-") == 4
    records = recipe.results("sources", "traced")
    of_eval = next(r for r in records if r["set"] == "demo-eval" and r["system"] == "epoch.1")
    assert (of_eval["known"], of_eval["unknown"], of_eval["of_no_class"]) == (3, 1, 4)
    assert sum(map(sum, of_eval["confusion"])) == 3 and 0 <= of_eval["oscr"] <= 1
    assert "EER of known against unknown %" in (system / "results" / "sources.txt").read_text()
    svg = system / "results" / "sources - epoch.1 on demo-eval.svg"
    root = ElementTree.fromstring(svg.read_text())
    described = [child.text for child in root if child.tag.endswith(("title", "desc"))]
    assert described[0] == "epoch.1 on demo-eval" and "A01: called " in described[1]
    check_command(path, system, capsys)


@pytest.mark.slow
def test_three_processes_trace_to_the_same_bytes(recipe, capsys) -> None:
    recipe.add_configs(CONFIG)
    recipe.call(capsys, "traced", "recipe.end_stage=2").ok()
    scores = recipe.system("traced") / "scores" / "epoch.1"
    expected = {path: path.read_bytes() for path in scores.glob("*.tsv")}
    assert expected
    for path in expected:
        path.unlink()
    recipe.run("traced", "recipe.start_stage=2", "recipe.end_stage=2", processes=3).ok()
    assert {path: path.read_bytes() for path in expected} == expected


def check_command(path, system, capsys) -> None:
    out = system / "out.json"
    picture = system / "matrix.svg"
    words = ["trace", f"net={path}", "--replicates", "20", "--json", str(out)]
    assert main([*words, "--picture", str(picture), "--reject", "energy"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("net: 3 classes of the column attack; 3 trials of known sources, 1 of")
    record = json.loads(out.read_text())[0]
    assert record["rejection"] == "energy" and set(record["intervals"]) >= {"accuracy", "oscr"}
    assert picture.read_text().startswith("<svg")
    # By the table of trials that stage 2 has written, which says the same.
    table = system / "trials" / "demo-eval.tsv"
    words = ["trace", str(path), "--replicates", "0", "--json", str(out)]
    assert main([*words, "--protocol", str(table)]) == 0
    again = json.loads(out.read_text())[0]
    assert again["confusion"] == record["confusion"] and "intervals" not in again


def test_sources_are_learnt_and_measured_without_bona_fide_trials(recipe, capsys, corpus) -> None:
    recipe.add_configs(CONFIG)
    lines = (corpus / "eval_list.txt").read_text().splitlines(keepends=True)
    (corpus / "spoofs_list.txt").write_text("".join(line for line in lines if line[-2] == "0"))
    script = (recipe.folder / "run.py").read_text()
    # As the evaluation set, by another list.
    added = 'CORPORA["spoofs"] = replace(CORPORA["demo-eval"], list="spoofs_list.txt")\n'
    script = script.replace("import sys\n", "import sys\nfrom dataclasses import replace\n")
    script = script.replace("\n\ndef measure", f"\n{added}\n\ndef measure")
    (recipe.folder / "run.py").write_text(script)
    kinds = ("training", "validation", "evaluation")
    words = [f"recipe.{kind}_sets=('spoofs',)" for kind in kinds]
    outcome = recipe.call(capsys, "alone", *words).ok()
    assert "no EER, as all trials are of one class" in outcome.output
    assert "spoofs has trials of one class only: sources are reported" in outcome.output
    records = recipe.results("sources", "alone")
    assert (records[0]["known"], records[0]["unknown"]) == (4, 0)
    page = (recipe.system("alone") / "results" / "report.html").read_text()
    assert '<section id="source-tracing">' in page
    assert "<strong>error</strong>" not in page and "No scores yet" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("source.column=vocoder",), "needs the column 'vocoder'"),
        (("source.column=None",), "measures source tracing, which is off with source.column"),
    ],
)
def test_what_cannot_be_traced_is_an_error_before_training(recipe, capsys, words, message) -> None:
    recipe.add_configs(CONFIG)
    recipe.call(capsys, "traced", *words).refused(message)


COMPONENTS = """
components < traced
paths.system_folder = 'components'
recipe.training_sets = ('esdd2:train',)
recipe.validation_sets = ('esdd2:val',)
recipe.evaluation_sets = ('esdd2:eval',)
source.column = 'component'
source.bona_fide = 'by_column'
network.validation_metric = 'source_macro_f1'
"""
FIVE = ("original", "bonafide_bonafide", "spoof_bonafide", "bonafide_spoof", "spoof_spoof")


def lay_esdd2(folder, corpus) -> None:
    """Lay recordings of the demo corpus out as ESDD2 does, with its five labels in turn."""
    recordings = sorted(corpus.rglob("*.flac"))
    lists = {"train": "development", "val": "development", "eval": "eval"}
    for position, (subset, part) in enumerate(lists.items()):
        lines = ["audio_path,label"]
        chosen = recordings[10 * position : 10 * position + 10]
        for number, recording in enumerate(chosen):
            name = f"{part}/{subset}/{number}.flac"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(recording)
            lines.append(f"{name},{FIVE[number % 5]}")
        table = folder / part / "metadata" / f"{subset}.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("\n".join(lines) + "\n")


def test_the_five_components_of_esdd2_are_learnt_next_to_detection(
    recipe, capsys, corpus, tmp_path
) -> None:
    recipe.add_configs(CONFIG + COMPONENTS)
    lay_esdd2(tmp_path / "CompSpoofV2", corpus)
    outcome = recipe.call(capsys, "components", f"paths.database_folder={tmp_path}").ok()
    assert "source tracing: 5 classes of the column component" in outcome.output
    records = recipe.results("sources", "components")
    of_eval = next(record for record in records if record["set"] == "esdd2:eval")
    # Two of the five are bona fide, and count as classes of their own.
    assert sorted(of_eval["classes"]) == sorted(FIVE)
    assert (of_eval["known"], of_eval["of_no_class"]) == (10, 0)
    assert [sum(row) for row in of_eval["confusion"]] == [2] * 5 and "macro_f1" in of_eval
