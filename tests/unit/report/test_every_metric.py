"""Every metric that is registered is in every output, and a new one needs no other file."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from asdf.__main__ import main
from asdf.metrics.metric_columns import METRICS
from asdf.tables.renderers import latex_text
from tests.conftest import ROOT
from tests.proofs.test_results import write_detection
from tests.unit.report.folders import make_run

OUTPUTS = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex"]
EVALUATE = [
    *("evaluate", "one=first.txt", "two=second.txt", "--protocol", "trials.tsv"),
    *("--replicates", "0", "--threshold", "0", "--asv-scores", "asv.txt", *OUTPUTS),
]
# A program that registers a metric, and then is the command line.
WITH_ANOTHER = """
import sys
from asdf.metrics import metric_columns

mine = metric_columns.Metric(key="mine", name="my metric", of=lambda summary: 0.4375)
metric_columns.METRICS = (*metric_columns.METRICS, mine)
from asdf.__main__ import main

sys.exit(main(sys.argv[1:]))
"""


def test_every_metric_is_in_every_output(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    write_detection(tmp_path)
    assert main(EVALUATE) == 0
    text = capsys.readouterr().out
    record = json.loads(Path("out.json").read_text())[0]
    record |= record["decisions"] | record["tandem"]
    with open("out.csv", newline="") as file:
        row = next(csv.DictReader(file))
    latex = Path("out.tex").read_text()
    for metric in METRICS:
        assert metric.heading in text, metric.key
        assert isinstance(record[metric.key], float), metric.key
        assert float(row[metric.key]) == pytest.approx(record[metric.key]), metric.key
        assert (latex_text(metric.heading) in latex) == metric.in_papers, metric.key


def test_a_new_metric_reaches_text_json_csv_latex_and_page(tmp_path: Path) -> None:
    write_detection(tmp_path)
    make_run(tmp_path / "net")
    printed = []
    for words in (EVALUATE, ["report", "net", "--output", "page.html", "--replicates", "0"]):
        command = [sys.executable, "-c", WITH_ANOTHER, *words]
        options = {"cwd": tmp_path, "env": {"PYTHONPATH": str(ROOT), "PATH": ""}}
        done = subprocess.run(command, **options, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert "my metric" in printed[0] and "0.4375" in printed[0]
    systems = json.loads((tmp_path / "out.json").read_text())
    assert [system["mine"] for system in systems] == [0.4375] * 2
    assert ",mine," in (tmp_path / "out.csv").read_text()
    for output in ("out.tex", "page.html"):
        text = (tmp_path / output).read_text()
        assert "my metric" in text and "0.4375" in text, output
