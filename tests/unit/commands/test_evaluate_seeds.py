"""`python -m asdf evaluate` of several seeds: means, deviations, intervals, tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.evaluation import evaluate, read_scores
from tests.unit.report.seeded import make_seeded_run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    files = []
    for shift, name in ((3, "good"), (1, "bad")):
        for seed in range(3):
            folder = base / f"{name}-seed{seed}"
            run = make_seeded_run(folder, seed, shift=shift, sets=("eval",), own__shift=shift)
            files.append(str(run / "scores" / "epoch.1" / "eval.txt"))
    return files


@pytest.fixture(scope="module")
def loose(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("loose")
    for number, file in enumerate(files):
        (folder / f"{number}.txt").write_bytes(read_bytes(file))
    return [str(folder / f"{number}.txt") for number in range(6)]


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def test_files_in_runs_are_put_together_by_the_settings_of_their_runs(files, tmp_path, capsys):
    outputs = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "latex")}
    words = [f"--{kind}={path}" for kind, path in outputs.items()]
    assert main(["evaluate", *files, "--replicates", "50", *words]) == 0
    shown = capsys.readouterr().out
    eers = np.array([evaluate(read_scores(file)).eer for file in files])
    mean, deviation = eers[:3].mean(), eers[:3].std(ddof=1)
    table = shown[shown.index("\nover seeds") + 1 :].splitlines()
    assert table[1].split()[:4] == [
        "good-seed*",
        "3",
        f"{100 * mean:.3f}",
        f"{100 * deviation:.3f}",
    ]
    assert max(map(len, table[:3])) <= 80
    assert table[3] == "best seed by eer on dev"
    assert "good-seed* (mean EER" in table[5]
    assert "paired by seed and trials" in table[5]
    *single, good, bad = json.loads(outputs["json"].read_text())
    assert [record["eer"] for record in single] == eers.tolist()
    assert (good["mean_eer"], good["deviation_eer"]) == (mean, deviation)
    assert good["interval_95_eer"]["low"] < mean < good["interval_95_eer"]["high"]
    assert bad["seeds"] == ["0", "1", "2"]
    rows = list(csv.DictReader(outputs["csv"].open()))
    kinds = {row["kind"]: row for row in rows if row["system"] == "good-seed*"}
    assert float(kinds["seed mean"]["eer"]) == mean
    assert float(kinds["seed deviation"]["eer"]) == deviation
    latex = outputs["latex"].read_text()
    assert (
        f"{100 * mean:.2f}}} $\\pm$ {100 * deviation:.2f}" in latex[latex.index("% over seeds") :]
    )


def test_loose_files_are_put_together_on_the_command_line(files, loose, capsys):
    words = [f"A={','.join(loose[:3])}", f"B={','.join(loose[3:])}"]
    assert main(["evaluate", *words, "--replicates", "50"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A #1\n")
    table = shown[shown.index("\nover seeds") + 1 :].splitlines()
    assert [line.split()[:2] for line in table[1:3]] == [["A", "3"], ["B", "3"]]
    # Their seeds are not known, so they are not paired by them.
    assert "(paired by trials)" in shown


def test_other_files_are_not_put_together(files, loose, tmp_path, capsys):
    assert main(["evaluate", *loose[:2], "--replicates", "20"]) == 0
    assert main(["evaluate", f"A={loose[0]}", files[3], "--replicates", "20"]) == 0
    assert "over seeds" not in capsys.readouterr().out
    odd = tmp_path / "a,b.txt"
    odd.write_bytes(read_bytes(loose[0]))
    assert main(["evaluate", f"A={odd}", "--replicates", "0"]) == 0
    assert main(["evaluate", f"A={odd},missing.txt", "--replicates", "0"]) == 1
    # The deviation of a file from itself would be 0.
    assert main(["evaluate", f"A={loose[0]},{loose[0]}", "--replicates", "0"]) == 2
    assert "a file is named twice" in capsys.readouterr().err
