"""`python -m asdf compare` of more than two runs: two configurations over their seeds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.evaluation import evaluate, read_scores
from tests.unit.report.seeded import make_seeded_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    folders = []
    for shift, name in ((1, "bad"), (3, "good")):
        for seed in range(3):
            folder = base / f"{name}-seed{seed}"
            made = make_seeded_run(folder, seed, shift=shift, sets=("eval",), own__shift=shift)
            folders.append(str(made))
    return folders


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
