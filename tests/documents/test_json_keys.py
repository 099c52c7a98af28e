"""The keys of JSON and CSV stand where the documents say."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.checkpoint.network_reading import read_network_file
from asdf.evaluation import write_scores
from tests.conftest import ROOT
from tests.proofs.test_results import write_detection
from tests.unit.conftest import write_small_network
from tests.unit.report.folders import make_run


def keys_in(page: str, after: str, until: str) -> list[str]:
    """Return the names in code style in the first cells of a table, or in a sentence."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(after)[2]
    text = text.partition(until)[0]
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return re.findall(r"`([\w.]+)`", " ".join(cells) or text)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_keys_of_evaluate(folder):
    write_detection(folder)
    words = ["first.txt", "--protocol", "trials.tsv", "--replicates", "20", "--threshold", "0"]
    words += ["--asv-scores", "asv.txt", "--json", "out.json", "--csv", "out.csv"]
    assert main(["evaluate", *words]) == 0
    (record,) = json.loads(Path("out.json").read_text())
    with open("out.csv", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    page = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    table = page.partition("| in JSON below |")[2].partition("`--submission OUT")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    known = [
        (key, below.strip(" `")) for keys, below in rows for key in re.findall(r"`(\w+)`", keys)
    ]
    assert len(known) == 20
    for key, below in known:
        value = record[below][key] if below else record[key]
        assert float(row[key]) == value, key
    assert record["intervals_95"]["speakers"]["eer"].keys() >= {"low", "high"}
    assert record["conditions"][0]["value"] == "A01" and record["means"].keys() == {"attack"}


def test_keys_of_compare(folder):
    for name, shift in (("a", 2.0), ("b", 1.2)):
        make_run(folder / name, shift=shift)
    assert main(["compare", "a", "b", "--replicates", "20", "--json", "out.json"]) == 0
    record = json.loads(Path("out.json").read_text())
    keys = keys_in("launch.md", "Its `--json` has", "`evaluate --latex`")
    assert set(keys) == {*record, "first", "second", "difference"}
    assert record["results"][0].keys() >= {"set", "first", "second", "difference"}


def test_keys_of_a_calibration(folder):
    network = write_small_network(folder / "net.pt")
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    scores = rng.normal(size=120) + 2 * labels
    write_scores("dev.txt", [f"{number}.wav" for number in range(120)], labels, scores)
    for method in ("logistic", "regularised", "bi-gaussian"):
        words = ["dev.txt", "--method", method, "--costs", "cost_fa=3"]
        assert main(["calibrate", str(network), *words]) == 0
        entry = read_network_file(network).calibration
        keys = keys_in("formats.md", "Its entry `calibration`", "The first six")
        assert entry.keys() <= set(keys)
        assert list(entry)[:6] == ["scale", "offset", "threshold", *keys[3:6]]
        assert (entry["miss"], entry["false_alarm"], entry["spoof_prior"]) == (1, 3, 0.05)
