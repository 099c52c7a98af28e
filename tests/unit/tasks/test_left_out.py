"""Folds put together by what their runs recorded, and their tables."""

import numpy as np
import pytest

from asdf.evaluation import evaluate, read_scores, write_results, write_scores
from asdf.report import gather, runs_in
from asdf.tasks.studies.left_out import left_out_latex, left_out_tables, left_out_text
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList
from tests.unit.report.folders import make_run

# Attack -> the scores of its spoofs against the bona fide scores 1, 2, 3 and 4.
EASY = {"A01": [0, 0, 0, 0], "A02": [0, 0, 0, 5]}
HARD = {"A03": [0, 0, 5, 5], "A04": [0, 0, 0, 0]}


def make_fold(folder, spoofs, seed, **settings):
    """Write a run that left out the attacks of `spoofs` and scored them."""
    name = f"train+dev.attack={','.join(spoofs)}"
    make_run(folder, epochs=(1,), sets=())
    scores = [1, 2, 3, 4]
    attacks = ["-"] * 4
    for attack, values in spoofs.items():
        scores += values
        attacks += [attack] * len(values)
    labels = [int(attack == "-") for attack in attacks]
    ids = [f"{index}.wav" for index in range(len(labels))]
    path = folder / "scores" / "epoch.1" / f"{name}.txt"
    write_scores(path, ids, np.array(labels), np.array(scores, np.float32))
    trials = TrialList(ids, labels, columns={"attack": attacks})
    write_trials(folder / "trials" / f"{name}.tsv", trials)
    write_results(folder / "results", [("epoch.1", name, evaluate(read_scores(path)))])
    recorded = {
        "recipe.seed": seed,
        "recipe.leave_out": ("attack", *spoofs),
        "recipe.leave_out_speakers": (f"speaker of {min(spoofs)}",),
        "recipe.evaluate_left_out": True,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    with (folder / "settings.py").open("a") as file:
        file.writelines(f"{name} = {value!r}  # command line\n" for name, value in recorded.items())
    return folder


def measure(folders):
    return gather(runs_in(folders), replicates=0)


def two_seeds(tmp_path, name="my-net", **settings):
    harder = {"A01": [0, 0, 0, 5], "A02": [0, 0, 5, 5]}
    folders = []
    for seed, easy in enumerate((EASY, harder)):
        for fold, spoofs in (("A01_A02-fold1of2", easy), ("A03_A04-fold2of2", HARD)):
            folder = tmp_path / f"{name}-attack_{fold}-seed{seed}"
            folders.append(make_fold(folder, spoofs, seed, **settings))
    return folders


def test_folds_are_one_system_with_a_mean_per_attack(tmp_path):
    (system,) = measure(two_seeds(tmp_path)).left_out
    assert (system.name, system.column, system.seeds) == ("my-net", "attack", ["0", "1"])
    # One of 4 spoofs above all bona fide trials is an EER of a quarter.
    eers = {value: system.eer(value) for value in system.values}
    assert eers == pytest.approx({"A01": 0.125, "A02": 0.375, "A03": 0.5, "A04": 0.0})
    assert (system.worst, system.eer("A03")) == ("A03", 0.5)
    # Seed 0: (0 + .25 + .5 + 0) / 4; seed 1: (.25 + .5 + .5 + 0) / 4.
    assert system.mean.values == pytest.approx((0.1875, 0.3125))
    assert system.mean.mean == pytest.approx(0.25)
    assert system.mean.deviation == pytest.approx(0.125 / np.sqrt(2))
    assert system.folds == {("A01", "A02"): 4, ("A03", "A04"): 4}


def test_the_tables_have_the_same_digits(tmp_path):
    folders = [*two_seeds(tmp_path), *two_seeds(tmp_path, "mild", network__dropout=0.5)]
    gathered = measure(folders)
    lines = left_out_text(gathered.left_out).splitlines()
    assert lines[0] == "EER % by attack, left out of training"
    assert lines[2].split() == ["seeds", "mean", "worst", "A01", "A02", "A03", "A04"]
    digits = "2 25.00 ± 8.84 50.00 (A03) 12.50 37.50 50.00 0.00"
    assert lines[3].split() == ["my-net", *digits.split()]
    assert lines[4].split() == ["mild", *digits.split()]
    assert lines[6] == (
        "Each of 4 values of attack is left out of training in one of 2 folds, and its spoofs (4 "
        "per value) are scored against the bona fide trials that the fold left out (4 per fold), "
        "with the last epoch. EERs are means over 2 seeds; mean: of the EERs of the 4 values, ± "
        "the standard deviation over seeds; worst: the highest EER."
    )
    (table,) = left_out_tables(gathered.left_out)
    # The worst value has a column of its own here, by which readers sort.
    assert [cell.text for cell in table.rows[0]][3:5] == ["50.00", "A03"]
    rows = left_out_latex(gathered.left_out).splitlines()
    # A page is no wider.
    assert r"my-net & 50.00 & 0.00 \\" in rows


def test_a_seed_that_lacks_a_fold_has_no_part_in_the_mean(tmp_path):
    folders = two_seeds(tmp_path, recipe__selected_epochs=("best", "last"))[:3]
    (system,) = measure(folders).left_out
    assert system.whole_seeds == ["0"] and system.mean.values == pytest.approx((0.1875,))
    assert system.eer("A01") == pytest.approx(0.125)
    text = left_out_text([system])
    assert "18.75  50.00 (A03)" in text
    assert "Seeds 1 lack folds and are excluded from mean and deviation." in text
    assert "with the best epoch by the rest of the validation sets." in text


def test_other_runs_and_other_settings_are_no_folds_of_a_system(tmp_path):
    folders = two_seeds(tmp_path)[:2]
    folders.append(make_fold(tmp_path / "other", EASY, 0, network__dropout=0.5))
    folders.append(make_fold(tmp_path / "again", EASY, 0))
    whole = make_fold(tmp_path / "whole", EASY, 0, recipe__evaluate_left_out=False)
    gathered = measure([*folders, whole])
    assert [system.name for system in gathered.left_out] == ["my-net, again", "other"]
    both, one = (system.folds for system in gathered.left_out)
    assert both == {("A01", "A02"): 4, ("A03", "A04"): 4} and one == {("A01", "A02"): 4}
    assert not gathered.has_folds_alone
    assert measure([whole]).left_out == [] and left_out_text([]) == ""


def test_a_single_attack_has_all_spoofs_of_its_fold(tmp_path):
    (system,) = measure([make_fold(tmp_path / "one", {"A02": [0, 0, 0, 5]}, 3)]).left_out
    assert system.eer("A02") == 0.25 and system.mean.deviation is None
    assert "  25.00  25.00 (A02)" in left_out_text([system])
    assert "EERs are of one seed" in left_out_text([system])
