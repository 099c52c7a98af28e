"""Attacks on detectors, from files to score files and numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

import asdf.adversarial.attacked_list as attacked_list
from asdf.adversarial import (
    Plan,
    Search,
    attacks_csv,
    attacks_json,
    attacks_latex,
    attacks_page,
    attacks_text,
    choose_attacks,
    run_attacks,
    success_svg,
)
from asdf.adversarial.attacking import ScoreSurface, attackable, find_heard
from asdf.adversarial.measuring import Success
from asdf.audio import cut_to_speech, read_audio
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import confidence_intervals
from asdf.robustness import Rival
from asdf.settings.sections import SpeechActivity
from asdf.trials.score_file import Scores, read_scores
from tests.unit.adversarial.conftest import RATE

HALF = RATE // 2
WEIGHTS = np.cos(0.3 * np.arange(HALF))


def plan_of(trials, folder, **options):
    values = {"replicates": 40, "search": Search(steps=12, step=0.6), **options}
    conditions = values.pop("conditions", None)
    if conditions is None:
        conditions = choose_attacks(snrs_db=[50, 20])
    return Plan(trials=trials, conditions=conditions, folder=folder, **values)


def scores_of(folder, name, network="linear"):
    return read_scores(folder / "scores" / network / f"{name}.txt")


def by_name(study):
    return {effect.condition.name: effect for effect in study.effects}


def test_scores_are_those_of_the_formula(trials, linear, tmp_path):
    run_attacks(plan_of(trials, tmp_path), linear)
    clean = scores_of(tmp_path, "clean")
    names = ("fgsm_50", "pgd_50", "pgd-snr_50")
    attacked = {name: scores_of(tmp_path, name) for name in names}
    for index in range(len(trials)):
        samples = read_audio(trials.path(index)).astype(np.float64)
        score = float(WEIGHTS @ samples)
        assert clean.scores[index] == pytest.approx(score, abs=1e-4)
        norm = 10 ** (-50 / 20) * np.linalg.norm(samples)
        sign = -1 if trials.labels[index] == 1 else 1
        by_signs = sign * norm / math.sqrt(HALF) * np.abs(WEIGHTS).sum()
        by_energy = sign * norm * np.linalg.norm(WEIGHTS)
        for name in ("fgsm_50", "pgd_50"):
            gain = attacked[name].scores[index] - score
            assert gain == pytest.approx(by_signs, rel=2e-3, abs=1e-4)
        gain = attacked["pgd-snr_50"].scores[index] - score
        assert gain == pytest.approx(by_energy, rel=2e-3, abs=1e-4)


def test_numbers_are_counted_from_the_score_files(trials, linear, tmp_path):
    study = run_attacks(plan_of(trials, tmp_path), linear)
    effects = by_name(study)
    clean = scores_of(tmp_path, "clean")
    assert study.judging.threshold == 0.0 and study.judging.source == "the network's"
    was_right = (clean.scores >= 0) == (clean.labels == 1)
    assert 0 < was_right.sum() <= len(trials)
    for name, effect in effects.items():
        scores = scores_of(tmp_path, name)
        turned = was_right & ((scores.scores >= 0) != (scores.labels == 1))
        assert (effect.success.turned, effect.success.trials) == (turned.sum(), was_right.sum())
        spoofs = clean.labels == 0
        assert effect.success_of_spoofs.turned == (turned & spoofs).sum()
        assert effect.success_of_bona_fide.trials == (was_right & ~spoofs).sum()
        accepted = np.mean(scores.spoof >= 0)
        assert effect.measured.values["false_alarm"].value == pytest.approx(accepted)
        mixed = np.where(spoofs, scores.scores, clean.scores)
        expected = confidence_intervals(Scores.of(clean, mixed), replicates=40).eer
        assert effect.eer_of_spoofs == expected
    # Noise of the energy never does better than what knows the detector.
    for level in ("50", "20"):
        noise = effects[f"noise_{level}"].success.turned
        for name in ("fgsm", "pgd", "pgd-snr"):
            assert effects[f"{name}_{level}"].success.turned >= noise
    assert effects["pgd-snr_20"].success.turned == was_right.sum()
    for name in ("noise_20", "fgsm_20", "pgd-snr_20"):
        assert effects[name].snr_db == pytest.approx(20, abs=1e-4)
    assert effects["pgd_20"].snr_db >= 20 - 1e-4


def test_success_has_the_exact_interval():
    from scipy.stats import beta

    for turned, trials in ((3, 17), (0, 9), (9, 9), (1, 40)):
        found = Success(turned, trials).interval
        low = beta.ppf(0.025, turned, trials - turned + 1) if turned else 0
        high = beta.ppf(0.975, turned + 1, trials - turned) if turned < trials else 1
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)
    assert Success(0, 0).interval is None


def test_a_transfer_from_itself_is_the_attack_on_itself(trials, linear, tmp_path):
    conditions = choose_attacks(["fgsm", "pgd", "pgd-snr"], [40], transfers=True)
    other = Rival("other", linear.detector, "digest")
    study = run_attacks(plan_of(trials, tmp_path, conditions=conditions), linear, other)
    for name in ("fgsm_40", "pgd_40", "pgd-snr_40"):
        own = scores_of(tmp_path, name).scores
        assert (scores_of(tmp_path, f"transferred-{name}").scores == own).all()
    assert "computed on other" in attacks_text(study)


def test_a_transfer_from_another_follows_the_gradients_of_the_other(
    trials, linear, listener, tmp_path
):
    stretch = listener("OneStretch", samples=HALF)
    conditions = choose_attacks(["fgsm"], [20], transfers=True)
    run_attacks(plan_of(trials, tmp_path, conditions=conditions), linear, Rival("o", stretch, "o"))
    # The other hears 0.30 to 0.45 s alone: all of the energy goes there, by the samples' signs.
    moved = scores_of(tmp_path, "transferred-fgsm_20").scores - scores_of(tmp_path, "clean").scores
    for index in range(len(trials)):
        samples = read_audio(trials.path(index)).astype(np.float64)
        norm = 10 ** (-20 / 20) * np.linalg.norm(samples)
        sign = -1 if trials.labels[index] == 1 else 1
        part = slice(4800, 7200)
        expected = sign * norm / math.sqrt(2400) * (WEIGHTS[part] @ np.sign(samples[part]))
        assert moved[index] == pytest.approx(expected, abs=2e-3)


@pytest.mark.slow
def test_a_study_that_was_stopped_goes_on_and_ends_alike(trials, linear, tmp_path, monkeypatch):
    whole = run_attacks(plan_of(trials, tmp_path / "a"), linear)
    attacked = []
    original = attacked_list.attack

    def stopped(task, attacker):
        if len(attacked) == 40:
            raise KeyboardInterrupt
        attacked.append(task)
        return original(task, attacker)

    def counted(task, attacker):
        attacked.append(task)
        return original(task, attacker)

    monkeypatch.setattr(attacked_list, "attack", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_attacks(plan_of(trials, tmp_path / "b"), linear)
    monkeypatch.setattr(attacked_list, "attack", counted)
    study = run_attacks(plan_of(trials, tmp_path / "b"), linear)
    # Without an attack, and four attacks at two levels: none is computed twice.
    assert len(attacked) == 9 * len(trials)
    assert attacks_json(study, {}) == attacks_json(whole, {})
    for path in sorted((tmp_path / "a").rglob("*.*")):
        other = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert other.read_bytes() == path.read_bytes()
    run_attacks(plan_of(trials, tmp_path / "b"), linear)
    assert len(attacked) == 9 * len(trials)
    run_attacks(plan_of(trials, tmp_path / "b"), replace(linear, digest="another network"))
    assert len(attacked) == 18 * len(trials)


@pytest.mark.slow
def test_results_are_the_same_with_several_processes(trials, linear, tmp_path):
    alone = run_attacks(plan_of(trials, tmp_path / "0"), linear)
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        study = run_attacks(plan_of(trials, folder, workers=workers), linear)
        assert attacks_json(study, {}) == attacks_json(alone, {})


def test_draws_follow_from_the_seed_and_are_shared_by_levels(trials, linear, tmp_path):
    conditions = choose_attacks(["fgsm"], [40, 20])
    for folder, seed in (("a", 0), ("b", 1)):
        run_attacks(plan_of(trials, tmp_path / folder, conditions=conditions, seed=seed), linear)
    clean = scores_of(tmp_path / "a", "clean").scores
    quiet = scores_of(tmp_path / "a", "noise_40").scores - clean
    loud = scores_of(tmp_path / "a", "noise_20").scores - clean
    assert loud == pytest.approx(10 * quiet, abs=1e-3)
    others = scores_of(tmp_path / "b", "noise_20").scores - clean
    assert np.abs(others - loud).min() > 0
    assert (
        scores_of(tmp_path / "b", "fgsm_20").scores == scores_of(tmp_path / "a", "fgsm_20").scores
    ).all()


def test_copies_are_kept_where_a_folder_is_named_and_nothing_else_is_written(
    trials, linear, tmp_path
):
    before = {path: path.read_bytes() for path in trials.folder.iterdir()}
    conditions = choose_attacks(["fgsm"], [30])
    plan = plan_of(trials, tmp_path / "out", conditions=conditions, keeps=tmp_path / "kept")
    run_attacks(plan, linear)
    scores = scores_of(tmp_path / "out", "fgsm_30").scores
    copies = sorted((tmp_path / "kept" / "fgsm_30").iterdir())
    assert len(copies) == len(trials)
    for index, copy in enumerate(copies):
        # They are of 24 bits: a thousandth of what was changed, at most.
        assert linear.detector.score(copy) == pytest.approx(scores[index], abs=5e-3)
    copies[3].unlink()
    run_attacks(plan, linear)
    assert copies[3].exists()
    without = plan_of(trials, tmp_path / "without", conditions=conditions)
    run_attacks(without, linear)
    assert not list((tmp_path / "without").rglob("*.flac"))
    assert {path: path.read_bytes() for path in trials.folder.iterdir()} == before


def test_short_recordings_are_repeated_and_their_gradients_are_summed(listener):
    detector = attackable(listener("Linear", samples=HALF))
    heard_T = torch.randn(3000, generator=torch.Generator().manual_seed(0)) * 0.1
    surface = ScoreSurface(detector, heard_T, is_whole=False, raises=True)
    value, gradient_T = surface.slope(heard_T)
    expected = np.zeros(3000)
    for index, weight in enumerate(WEIGHTS):
        expected[index % 3000] += weight
    assert gradient_T.numpy() == pytest.approx(expected, abs=1e-5)
    assert value == pytest.approx(float(expected @ heard_T.double().numpy()), abs=1e-4)
    assert surface.value(heard_T) == value


def test_the_score_over_windows_has_the_gradients_of_its_windows(listener):
    detector = attackable(listener("Linear", samples=HALF))
    samples = 2 * HALF + 1000
    rng = np.random.default_rng(0)
    heard = (0.1 * rng.standard_normal(samples)).astype(np.float32)
    # The first window is digital silence, which does not count.
    heard[:HALF] = 0
    surface = ScoreSurface(detector, torch.from_numpy(heard), is_whole=True, raises=False)
    value, gradient_T = surface.slope(torch.from_numpy(heard))
    expected = np.zeros(samples)
    for start in (HALF, HALF + 1000):
        expected[start : start + HALF] -= WEIGHTS / 2
    assert gradient_T.numpy() == pytest.approx(expected, abs=1e-5)
    assert value == pytest.approx(-float(detector.score_whole((heard, RATE)).score), abs=1e-4)


def test_whole_recordings_are_attacked_over_their_windows(trials, linear, tmp_path):
    conditions = choose_attacks(["fgsm"], [30])
    rng = np.random.default_rng(4)
    long = (0.05 * rng.standard_normal(HALF + 3000)).astype(np.float32)
    soundfile.write(trials.path(0), long, RATE, subtype="FLOAT")
    plan = plan_of(trials, tmp_path, conditions=conditions, is_whole=True)
    run_attacks(plan, linear)
    folded = np.zeros(len(long))
    folded[:HALF] += WEIGHTS / 2
    folded[3000:] += WEIGHTS / 2
    assert scores_of(tmp_path, "clean").scores[0] == pytest.approx(float(folded @ long), abs=1e-4)
    norm = 10 ** (-30 / 20) * np.linalg.norm(long.astype(np.float64))
    gain = norm / math.sqrt(len(long)) * np.abs(folded).sum()
    moved = scores_of(tmp_path, "fgsm_30").scores[0] - scores_of(tmp_path, "clean").scores[0]
    assert moved == pytest.approx(gain, rel=2e-3)


@pytest.mark.parametrize("mode", ["off", "endpoint", "on"])
def test_what_is_heard_is_what_speech_activity_detection_leaves(listener, mode):
    detector = listener("Linear", samples=HALF)
    detector.settings.sad = SpeechActivity(mode=mode)
    rng = np.random.default_rng(0)
    waveform = (0.1 * rng.standard_normal(RATE)).astype(np.float32)
    waveform[:2000] = 0
    waveform[5000:9000] = 0
    speech = cut_to_speech(waveform, detector.settings.sad)
    heard = find_heard(detector, waveform, is_whole=True)
    assert (waveform[heard] == speech).all()
    beginning = find_heard(detector, waveform, is_whole=False)
    assert (waveform[beginning] == speech[:HALF]).all()


def test_recordings_that_cannot_be_attacked_are_left_out_and_named(trials, linear, tmp_path):
    soundfile.write(trials.path(3), np.zeros(HALF), RATE)
    trials.path(4).write_bytes(b"no audio")
    study = run_attacks(plan_of(trials, tmp_path), linear)
    assert set(study.left_out) == {"r3.wav", "r4.wav"}
    assert sum(study.counts) == len(trials) - 2
    text = attacks_text(study)
    assert "digital silence" in text and "2 recordings are excluded from all results" in text


def test_networks_without_gradients_are_refused_by_name(trials, listener, tmp_path):
    detector = listener("CutOff", samples=HALF)
    with pytest.raises(AsdfError, match="CutOff stops gradients"):
        run_attacks(plan_of(trials, tmp_path), Rival("cut", detector, "x"))
    assert not list(tmp_path.rglob("*.txt"))


def test_a_gradient_of_zero_is_refused(trials, listener, tmp_path, monkeypatch):
    from tests.extras.forensic.why.listeners import Linear

    monkeypatch.setattr(Linear, "listen", lambda self, waveforms: (100 * waveforms).round().sum(1))
    with pytest.raises(AsdfError, match="has a zero gradient"):
        run_attacks(plan_of(trials, tmp_path), Rival("r", listener("Linear", samples=HALF), "x"))


@pytest.mark.parametrize("kind", ["lfcc", "log_mel", "raw"])
def test_gradients_of_cepstral_and_raw_front_ends_are_those_of_differences(
    kind, tmp_path, small_listener
):
    detector = attackable(small_listener(kind))
    rng = np.random.default_rng(1)
    heard_T = torch.from_numpy((0.1 * rng.standard_normal(9000)).astype(np.float32))
    surface = ScoreSurface(detector, heard_T, is_whole=False, raises=True)
    _, gradient_T = surface.slope(heard_T)
    direction_T = gradient_T / torch.linalg.vector_norm(gradient_T)
    step = 1e-3
    rise = surface.value(heard_T + step * direction_T) - surface.value(heard_T - step * direction_T)
    slope = float(torch.linalg.vector_norm(gradient_T))
    assert rise / (2 * step) == pytest.approx(slope, rel=0.02)


def test_outputs_hold_the_numbers(trials, linear, tmp_path):
    study = run_attacks(plan_of(trials, tmp_path), linear)
    record = json.loads(attacks_json(study, {"ASDF": "x"}))
    rows = {row["condition"]: row for row in record["results"]}
    assert record["pgd"] == {"steps": 12, "step": 0.6, "restarts": 1}
    row = rows["pgd-snr_20"]
    assert row["success"] == row["success_turned"] / row["success_trials"] == 1
    assert row["snr_db"] == 20 and row["median_snr_db"] == pytest.approx(20, abs=1e-4)
    assert "success" not in rows["clean"]
    text = " ".join(attacks_text(study).split())
    eer = 100 * row["eer"]
    assert f"PGD at SNR, 20 dB {eer:.2f}" in text
    assert "threshold 0 on all conditions, the network's" in text
    assert len(attacks_csv(study).splitlines()) == 1 + 9
    assert f"{eer:.2f}" in attacks_latex(study)
    page = attacks_page(study, ["ASDF: x"])
    assert "PGD at SNR, 20 dB: 100.0 %" in page
    svg = success_svg(study)
    assert svg.startswith("<svg") or "<svg" in svg[:300]
    assert "random noise" in svg and "20 dB" in svg


def test_gradients_that_lead_nowhere_are_warned_of(trials, linear, tmp_path):
    study = run_attacks(plan_of(trials, tmp_path), linear)
    assert "WARNING" not in attacks_text(study)
    effects = []
    for effect in study.effects:
        turned = 16 if effect.condition.kind == "noise" else 0
        effects.append(replace(effect, success=Success(turned, 16)))
    text = attacks_text(replace(study, effects=effects))
    assert "WARNING: PGD, 20 dB changes fewer decisions than random noise, 20 dB" in text
