"""A study: copies that are the same however they are made, score files, and the numbers."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asdf.extras.robustness.making as making
from asdf.audio import read_audio
from asdf.extras.robustness.degradations import DEGRADATIONS, Material
from asdf.extras.robustness.making import Maker, choose_conditions
from asdf.extras.robustness.running import Plan, Rival, run_study
from asdf.extras.robustness.showing import study_files
from asdf.metrics.bootstrap import confidence_intervals, paired_test
from asdf.metrics.calibration import calibrate, eer_threshold
from asdf.metrics.detection import cllr
from asdf.runs.pool import worker_pool
from asdf.trials.score_file import read_scores
from tests.extras.robustness.conftest import LevelDetector

ONLY = ("white_10", "gain_-20", "room_0.3")


def material_of(trials) -> Material:
    return Material(tuple(str(trials.path(index)) for index in range(len(trials))))


def plan_of(trials, folder: Path, **options) -> Plan:
    material = material_of(trials)
    only = options.pop("only", ONLY)
    conditions = choose_conditions(material, only)[0]
    plan = {"replicates": 60, "workers": 0, **options}
    return Plan(trials=trials, conditions=conditions, material=material, folder=folder, **plan)


def maker_of(trials, folder: Path, seed: int) -> Maker:
    with worker_pool(0, material_of(trials)) as compute:
        return Maker(trials, folder, material_of(trials), seed, compute)


def digests(folder: Path) -> dict[str, str]:
    files = sorted(folder.rglob("*.flac"))
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def make_all(trials, folder: Path, workers: int, only=("white_10", "babble_0")) -> dict[str, str]:
    with worker_pool(workers, material_of(trials)) as compute:
        maker = Maker(trials, folder, material_of(trials), 3, compute)
        for condition in choose_conditions(material_of(trials), only)[0]:
            for _, _, problem in maker.make(condition):
                assert not problem
    return digests(folder)


@pytest.mark.slow
def test_copies_are_the_same_with_1_and_2_processes(trials, tmp_path) -> None:
    alone = make_all(trials, tmp_path / "0", 0)
    assert len(alone) == 2 * len(trials)
    assert make_all(trials, tmp_path / "1", 1) == alone
    assert make_all(trials, tmp_path / "2", 2) == alone


def test_copies_do_not_depend_on_order_nor_on_what_exists(trials, tmp_path, monkeypatch) -> None:
    alone = make_all(trials, tmp_path / "a", 0)
    made = []
    original = making.make

    def stopped(task, material):
        if len(made) == 7:
            raise KeyboardInterrupt
        made.append(task.utterance)
        return original(task, material)

    monkeypatch.setattr(making, "make", stopped)
    with pytest.raises(KeyboardInterrupt):
        make_all(trials, tmp_path / "b", 0)
    assert len(digests(tmp_path / "b")) == 7
    # What a killed process leaves of a file is removed.
    (tmp_path / "b" / "white_10" / ".x.flac.1234.part").write_bytes(b"half")
    monkeypatch.setattr(making, "make", lambda task, m: made.append(task) or original(task, m))
    assert make_all(trials, tmp_path / "b", 0) == alone
    assert len(made) == 2 * len(trials)
    assert not list((tmp_path / "b").rglob("*.part"))


def test_copies_of_another_recording_or_seed_are_made_again(trials, tmp_path) -> None:
    before = make_all(trials, tmp_path / "a", 0)
    changed = trials.path(0)
    changed.write_bytes(trials.path(2).read_bytes() + b"  ")
    after = make_all(trials, tmp_path / "a", 0)
    assert {name for name in before if before[name] != after[name]} >= {"white_10/000000_r0.flac"}
    maker = maker_of(trials, tmp_path / "a", 4)
    [condition] = choose_conditions(material_of(trials), ["white_10"])[0]
    list(maker.make(condition))
    other = digests(tmp_path / "a")
    assert all(other[name] != after[name] for name in after if name.startswith("white"))


def test_a_copy_is_the_degraded_waveform_to_24_bits_and_clipping_is_counted(
    trials, tmp_path
) -> None:
    maker = maker_of(trials, tmp_path, 0)
    [quiet, loud] = choose_conditions(material_of(trials), ["gain_-20", "gain_20"])[0]
    list(maker.make(quiet))
    index = 5
    expected = read_audio(trials.path(index)) / np.float32(10)
    copy = read_audio(maker.paths(quiet)[index])
    np.testing.assert_allclose(copy, expected, atol=2**-23)
    clipped = {index: count for index, count, _ in maker.make(loud)}
    for index, count in clipped.items():
        assert count == (np.abs(10 * read_audio(trials.path(index))) > 1).sum()
    assert sum(clipped.values()) > 0
    # Read back from the copies, not counted anew.
    assert {index: count for index, count, _ in maker.make(loud)} == clipped


def test_a_copy_is_made_on_one_thread(trials, tmp_path, monkeypatch) -> None:
    used = []

    def count_threads(waveform, grade, draw):
        used.append(torch.get_num_threads())
        return waveform

    counting = replace(DEGRADATIONS["white"], apply=count_threads)
    monkeypatch.setitem(DEGRADATIONS, "white", counting)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        make_all(trials, tmp_path, 0, ("white_10",))
        assert set(used) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_score_files_are_the_detectors_on_the_copies(trials, tmp_path) -> None:
    detector = LevelDetector()
    plan = plan_of(trials, tmp_path / "out", keeps_audio=True)
    run_study(plan, [Rival("level", detector, "digest")])
    maker = maker_of(trials, plan.folder / "audio", plan.seed)
    for condition in plan.conditions:
        path = plan.folder / "scores" / "level" / f"{condition.name}.txt"
        scores = read_scores(path)
        assert list(scores.ids) == list(trials.ids)
        for index, copy in enumerate(maker.paths(condition)):
            assert np.float32(scores.scores[index]) == np.float32(detector.level(copy))
    clean = read_scores(plan.folder / "scores" / "level" / "clean.txt")
    assert np.float32(clean.scores[3]) == np.float32(detector.level(trials.path(3)))


def test_a_study_that_goes_on_scores_nothing_twice_and_ends_alike(trials, tmp_path) -> None:
    whole = run_study(plan_of(trials, tmp_path / "a"), [Rival("level", LevelDetector(), "x")])
    first = LevelDetector()
    run_study(plan_of(trials, tmp_path / "b", only=ONLY[:1]), [Rival("level", first, "x")])
    second = LevelDetector()
    study = run_study(plan_of(trials, tmp_path / "b"), [Rival("level", second, "x")])
    assert len(first.heard) == 2 * len(trials) and len(second.heard) == 2 * len(trials)
    assert study_files(study, {}, {}) == study_files(whole, {}, {})
    # Without --keep-audio nothing of the copies stays.
    assert not (tmp_path / "b" / "audio").exists()
    third = LevelDetector()
    run_study(plan_of(trials, tmp_path / "b"), [Rival("level", third, "another network")])
    assert len(third.heard) == 4 * len(trials)


def test_a_stop_while_scores_are_written_leaves_no_record_of_them(
    trials, tmp_path, monkeypatch
) -> None:
    plan = plan_of(trials, tmp_path, only=ONLY[:1])
    run_study(plan, [Rival("level", LevelDetector(), "x")])

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("asdf.extras.robustness.running.write_recorded", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_study(plan, [Rival("level", LevelDetector(), "another network")])
    assert [path.stem for path in (tmp_path / "scores").rglob("*.made_of")] == [ONLY[0]]


def test_numbers_are_those_of_the_metrics(trials, tmp_path) -> None:
    plan = plan_of(trials, tmp_path / "out")
    rivals = [Rival("level", LevelDetector(), "x"), Rival("half", LevelDetector(-0.5), "y")]
    study = run_study(plan, rivals)
    assert study.by_speakers
    scores = {}
    for name in ("clean", *ONLY):
        scores[name] = read_scores(plan.folder / "scores" / "level" / f"{name}.txt")
    clean = scores["clean"]
    speakers = trials.columns["speaker"]
    threshold = eer_threshold(clean.bona_fide, clean.spoof)
    learnt = calibrate(clean.bona_fide, clean.spoof)
    assert study.judging["level"].threshold == threshold
    rows = {row.condition: row for row in study.measured if row.network == "level"}
    for name, degraded in scores.items():
        options = {"speakers": speakers, "replicates": 60}
        assert rows[name].values["eer"] == confidence_intervals(degraded, **options).eer
        assert rows[name].values["min_dcf"] == confidence_intervals(degraded, **options).min_dcf
        expected = cllr(learnt.llr(degraded.bona_fide), learnt.llr(degraded.spoof))
        assert rows[name].values["cllr"].value == pytest.approx(expected)
        misses = np.mean(degraded.bona_fide < threshold)
        assert rows[name].values["miss"].value == pytest.approx(misses)
        alarms = np.mean(degraded.spoof >= threshold)
        assert rows[name].values["false_alarm"].value == pytest.approx(alarms)
        for rate in ("miss", "false_alarm"):
            known = rows[name].values[rate]
            assert known.low <= known.value <= known.high
            # Over speakers, like the other metrics.
            assert known.groups == rows[name].values["eer"].groups
        if name != "clean":
            tested = paired_test(clean, degraded, **options)
            assert rows[name].changes["eer"] == tested.eer
            assert rows[name].changes["min_dcf"] == tested.min_dcf
            for rate in ("miss", "false_alarm", "cllr"):
                change = rows[name].values[rate].value - rows["clean"].values[rate].value
                assert rows[name].changes[rate].value == pytest.approx(change)
    others = read_scores(plan.folder / "scores" / "half" / "white_10.txt")
    compared = {row.condition: row for row in study.compared}
    expected = paired_test(scores["white_10"], others, speakers=speakers, replicates=60)
    assert compared["white_10"].changes == {"eer": expected.eer, "min_dcf": expected.min_dcf}
    # Holm by hand: the lowest of four p-values counts four times.
    p_values = {name: row.changes["eer"].p_value for name, row in compared.items()}
    lowest = min(p_values, key=p_values.__getitem__)
    adjusted = min(1.0, 4 * p_values[lowest])
    assert compared[lowest].p_values["eer"] == pytest.approx(adjusted)


def test_bounds_of_a_calibration_limit_costs_and_no_error_rate(trials, tmp_path) -> None:
    """As in verdicts: with nearly all ratios at a bound, ties would make any EER."""
    learnt = calibrate(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.5, 3.0]))
    calibrated = LevelDetector()
    calibrated.calibration = replace(learnt, lowest_llr=-0.01, highest_llr=0.01)
    calibrated.threshold = 0.0
    plan = plan_of(trials, tmp_path / "bounded")
    # Scores whose key lacks the limits are those of an earlier version, and are computed again.
    run_study(plan, [Rival("level", LevelDetector(), "x")])
    study = run_study(plan, [Rival("level", calibrated, "x")])
    assert len(calibrated.heard) == len(study.measured) * len(trials)
    speakers = trials.columns["speaker"]
    for row in study.measured:
        scores = read_scores(plan.folder / "scores" / "level" / f"{row.condition}.txt")
        assert np.abs(scores.scores).max() > 1
        expected = confidence_intervals(scores, speakers=speakers, replicates=60).eer
        assert row.values["eer"] == expected
        limited = scores.scores.clip(-0.01, 0.01)
        expected = cllr(limited[scores.labels == 1], limited[scores.labels == 0])
        assert row.values["cllr"].value == pytest.approx(expected)


def test_paired_intervals_of_misses_are_those_of_a_bootstrap_by_hand(trials, tmp_path) -> None:
    rows = dict(trials.columns)
    del rows["speaker"]
    without = replace(trials, columns=rows)
    plan = plan_of(without, tmp_path / "out", replicates=4000, only=("white_0",))
    study = run_study(plan, [Rival("level", LevelDetector(), "x")])
    assert not study.by_speakers
    clean = read_scores(plan.folder / "scores" / "level" / "clean.txt")
    noisy = read_scores(plan.folder / "scores" / "level" / "white_0.txt")
    threshold = eer_threshold(clean.bona_fide, clean.spoof)
    before = clean.bona_fide < threshold
    after = noisy.bona_fide < threshold
    rng = np.random.default_rng(99)
    draws = rng.integers(len(before), size=(20000, len(before)))
    drawn = after[draws].mean(axis=1) - before[draws].mean(axis=1)
    [row] = [row for row in study.measured if row.condition == "white_0"]
    change = row.changes["miss"]
    assert change.value == pytest.approx(after.mean() - before.mean())
    assert change.high - change.low == pytest.approx(2 * 1.96 * drawn.std(), rel=0.06, abs=1e-9)


def test_a_recording_that_cannot_be_read_is_left_out_of_all_and_named(trials, tmp_path) -> None:
    trials.path(4).write_bytes(b"no audio")

    class Refusing(LevelDetector):
        def score_many(self, paths):
            for index, path in enumerate(paths):
                is_bad = index == 4
                score = None if is_bad else self.level(path)
                yield SimpleNamespace(index=index, compared=score, error="bad" if is_bad else "")

    study = run_study(plan_of(trials, tmp_path / "out"), [Rival("level", Refusing(), "x")])
    assert list(study.left_out) == ["r4.wav"]
    assert sum(study.counts) == len(trials) - 1
    assert "r4.wav: bad" in study_files(study, {}, {})["results.txt"]


def test_outputs_hold_the_numbers(trials, tmp_path) -> None:
    rivals = [Rival("level", LevelDetector(), "x"), Rival("half", LevelDetector(-0.5), "y")]
    plan = plan_of(trials, tmp_path / "out", only=("white", "gain_-20"))
    study = run_study(plan, rivals)
    left_out = {"noise": "--noise FOLDER names recordings for it"}
    files = study_files(study, left_out, {"ASDF": "x"})
    record = json.loads(files["results.json"])
    rows = {(row["network"], row["condition"]): row for row in record["results"]}
    row = rows["level", "white_0"]
    eer = 100 * row["eer"]
    assert row["grade"] == 0 and row["family"] == "noise" and row["eer_p_holm"] <= 1
    text = files["results.txt"]
    assert f"white 0 dB SNR {eer:.2f}" in " ".join(text.split())
    assert "Not measured:" in text and "half less level" in text
    assert len(files["results.csv"].splitlines()) == 1 + 2 * 5
    assert f"{eer:.2f}" in files["results.tex"]
    page = files["report.html"]
    assert f"level, white 0 dB SNR: EER {eer:.2f} %" in page
    assert files == study_files(study, left_out, {"ASDF": "x"})
    # Each metric has its picture, with the numbers of the table.
    for shown in (
        f"Misses {100 * row['miss']:.2f} %",
        f"False alarms {100 * row['false_alarm']:.2f} %",
        f"minDCF {row['min_dcf']:.4f}",
        f"Cllr {row['cllr']:.3f} bits",
    ):
        assert f"level, white 0 dB SNR: {shown}" in page
