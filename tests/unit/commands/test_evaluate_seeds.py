"""`python -m asdf evaluate` and `compare` of several seeds: means, deviations, intervals, tests."""

import csv
import json
import shutil

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.evaluation import evaluate, read_scores
from tests.unit.report.seeded import make_configurations, make_seeded_run


@pytest.fixture(scope="module")
def files(folders):
    """Scores of a good configuration and of a bad one."""
    return [f"{folder}/scores/epoch.1/eval.txt" for folder in (*folders[3:], *folders[:3])]


@pytest.fixture(scope="module")
def loose(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("loose")
    for number, file in enumerate(files):
        shutil.copy(file, folder / f"{number}.txt")
    return [str(folder / f"{number}.txt") for number in range(6)]


def test_files_in_runs_are_put_together_by_the_settings_of_their_runs(files, tmp_path, capsys):
    outputs = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "latex")}
    words = [f"--{kind}={path}" for kind, path in outputs.items()]
    assert main(["evaluate", *files, "--replicates", "50", *words]) == 0
    shown = capsys.readouterr().out
    eers = np.array([evaluate(read_scores(file)).eer for file in files])
    mean, deviation = eers[:3].mean(), eers[:3].std(ddof=1)
    table = shown[shown.index("\nover seeds") + 1 :].splitlines()
    numbers = f"{100 * mean:.3f} {100 * deviation:.3f}"
    assert table[1].split()[:4] == ["good-seed*", "3", *numbers.split()]
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
    _, _, latex = outputs["latex"].read_text().partition("% over seeds")
    assert f"{100 * mean:.2f}}} $\\pm$ {100 * deviation:.2f}" in latex


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
    shutil.copy(loose[0], odd)
    assert main(["evaluate", f"A={odd}", "--replicates", "0"]) == 0
    assert main(["evaluate", f"A={odd},missing.txt", "--replicates", "0"]) == 1
    # The deviation of a file from itself would be 0.
    assert main(["evaluate", f"A={loose[0]},{loose[0]}", "--replicates", "0"]) == 2
    assert "a file is named twice" in capsys.readouterr().err


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    runs = make_configurations(tmp_path_factory.mktemp("runs"), bad=1, good=3)
    return list(map(str, runs))


def eers_of(folders) -> np.ndarray:
    files = [f"{folder}/scores/epoch.1/eval.txt" for folder in folders]
    return 100 * np.array([evaluate(read_scores(file)).eer for file in files])


def test_two_configurations_are_compared_over_their_seeds(folders, capsys, tmp_path):
    out = tmp_path / "out.json"
    # In any order of the command line.
    named = [folders[0], *folders[3:], *folders[1:3]]
    assert main(["compare", *named, "--replicates", "100", "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A  bad-seed*: 3 runs, seeds 0, 1, 2\nB  good-seed*: 3 runs")
    assert "Settings that differ\n  own.shift\n    A  1" in shown
    assert "recipe.seed" not in shown
    bad, good = eers_of(folders[:3]), eers_of(folders[3:])
    assert f"{bad.mean():.2f} +- {bad.std(ddof=1):.2f}" in shown
    assert f"{good.mean() - bad.mean():+.2f}" in shown
    assert "bootstrap over seeds and speakers, paired by seed, two-sided" in shown
    sentence = "On eval, good-seed* (mean EER"
    assert sentence in shown
    assert "is significantly better than bad-seed*" in shown
    record = json.loads(out.read_text())
    assert [c["name"] for c in record["configurations"]] == ["bad-seed*", "good-seed*"]
    (result,) = record["results"]
    difference = result["tested"]["difference"]["eer"]
    assert 100 * difference["value"] == pytest.approx(good.mean() - bad.mean())
    # Student's t over three pairs of seeds, with what the speakers add.
    assert 0 < difference["p_value"] < 0.05
    assert difference["high"] < 0
    assert result["tested"]["eer_welch_p"] < 0.05


def test_three_configurations_are_refused(folders, capsys, tmp_path):
    other = make_seeded_run(tmp_path / "third", 0, sets=("eval",))
    assert main(["compare", *folders, str(other)]) == 2
    error = capsys.readouterr().err
    assert "these 7 runs are of 3: bad-seed* (3), good-seed* (3), third (1)" in error


def test_a_seed_that_was_scored_on_other_trials_is_refused(folders, capsys, tmp_path):
    other = make_seeded_run(tmp_path / "bad-seed9", 9, sets=("eval",), own__shift=1)
    path = other / "scores" / "epoch.1" / "eval.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert main(["compare", folders[0], str(other), folders[3], "--replicates", "20"]) == 1
    assert "seeds 0, 9 were not scored on the same trials (100, 99)" in capsys.readouterr().err
