"""`python -m asdf evaluate`: other costs, and what a paper's intervals are over."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.errors import UsageError
from asdf.evaluation import DetectionCost, Scores, TandemCost, confidence_intervals, write_scores
from asdf.metrics.detection import DetCurve, with_costs
from asdf.metrics.results import result_of
from asdf.metrics.summary import leaders
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

RNG = np.random.default_rng(11)
LABELS = np.repeat([1, 0], [60, 90])
IDS = [f"U{number}" for number in range(LABELS.size)]
COLUMNS = {
    "attack": ["-"] * 60 + ["A01", "A02", "A03"] * 30,
    "speaker": [f"S{number % 12}" for number in range(LABELS.size)],
}
NIST_2010 = "p_spoof=0.999,cost_fa=1"


def paid_at(threshold: float, scores: np.ndarray, labels: np.ndarray, costs) -> float:
    """Return the normalised cost of the decisions at a threshold."""
    prior, miss, false_alarm = costs
    paid = miss * (1 - prior) * np.mean(scores[labels == 1] < threshold)
    paid += false_alarm * prior * np.mean(scores[labels == 0] >= threshold)
    return paid / min(miss * (1 - prior), false_alarm * prior)


def brute(scores: np.ndarray, labels: np.ndarray, costs: tuple[float, float, float]):
    """Return minDCF and actDCF by trying every threshold."""
    at = np.concatenate([[-np.inf], np.sort(scores), [np.inf]])
    prior, miss, false_alarm = costs
    bayes = np.log(false_alarm * prior / (miss * (1 - prior)))
    least = min(paid_at(threshold, scores, labels, costs) for threshold in at)
    return least, paid_at(bayes, scores, labels, costs)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two systems on a set with attacks and speakers, and on a set of development."""
    monkeypatch.chdir(tmp_path)
    write_trials("trials.tsv", TrialList(IDS, LABELS, columns=COLUMNS))
    rng = np.random.default_rng(5)
    for name in ("a", "b", "dev"):
        scores = (rng.normal(size=LABELS.size) + 1.7 * LABELS).astype(np.float32)
        ids = [f"{name}_{one}" for one in IDS] if name == "dev" else IDS
        write_scores(f"{name}.txt", ids, LABELS, scores)
    return tmp_path


def evaluate(*words: str) -> list[dict]:
    protocol = ("--protocol", "trials.tsv", "--replicates", "40")
    assert main(["evaluate", *words, *protocol, "--json", "out.json", "--csv", "out.csv"]) == 0
    return json.loads(Path("out.json").read_text())


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        (NIST_2010, (0.999, 1, 1)),
        ("p_spoof=0.5,cost_miss=1,cost_fa=1", (0.5, 1, 1)),
        ("cost_miss=10", (0.05, 10, 10)),
        (" p_spoof = 0.01 , cost_fa = 100 ", (0.01, 1, 100)),
        ("p_spoof=2e-1", (0.2, 1, 10)),
    ],
)
def test_costs_hold_for_all_numbers_of_a_system(folder, capsys, text, costs):
    record, other = evaluate("a.txt", "b.txt", "--costs", text)
    scores = np.loadtxt("a.txt", usecols=2).astype(np.float32).astype(np.float64)
    expected = brute(scores, LABELS, costs)
    assert (record["min_dcf"], record["act_dcf"]) == pytest.approx(expected, rel=1e-12)
    spoof_of = np.array(COLUMNS["attack"]) == "A02"
    chosen = spoof_of | (LABELS == 1)
    (condition,) = [known for known in record["conditions"] if known["value"] == "A02"]
    expected = brute(scores[chosen], LABELS[chosen], costs)
    assert (condition["min_dcf"], condition["act_dcf"]) == pytest.approx(expected, rel=1e-12)
    known = Scores(IDS, LABELS, scores)
    drawn = confidence_intervals(known, replicates=40, cost=DetectionCost(*costs))
    bounds = {"low": drawn.min_dcf.low, "high": drawn.min_dcf.high}
    assert record["intervals_95"]["trials"]["min_dcf"] == bounds
    assert drawn.min_dcf.value == pytest.approx(record["min_dcf"])
    names = dict(zip(("p_spoof", "cost_miss", "cost_fa"), costs, strict=True))
    assert {name: other[name] for name in names} == names
    row = next(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert {name: float(row[name]) for name in names} == names
    said = ",".join(f"{name}={value:g}" for name, value in names.items())
    assert capsys.readouterr().out.count(f"  costs          {said}\n") == 2


def test_without_costs_they_are_those_of_asvspoof_5_and_not_said(folder, capsys):
    (record,) = evaluate("a.txt")
    scores = np.loadtxt("a.txt", usecols=2)
    assert record["min_dcf"] == pytest.approx(brute(scores, LABELS, (0.05, 1, 10))[0], rel=1e-12)
    assert "p_spoof" not in record and "costs" not in capsys.readouterr().out


def test_a_threshold_at_the_min_dcf_is_that_of_the_costs(folder):
    words = ("a.txt", "--threshold-from", "dev.txt", "--threshold-by", "min-dcf")
    scores = np.loadtxt("dev.txt", usecols=2)
    thresholds = {}
    for text, costs in (("p_spoof=0.5,cost_fa=1", (0.5, 1, 1)), (NIST_2010, (0.999, 1, 1))):
        (record,) = evaluate(*words, "--costs", text)
        value = thresholds[text] = record["decisions"]["threshold"]
        paid = paid_at(value, scores, LABELS, costs)
        assert paid == pytest.approx(brute(scores, LABELS, costs)[0], rel=1e-12)
    assert thresholds[NIST_2010] > thresholds["p_spoof=0.5,cost_fa=1"]


def test_means_over_seeds_are_of_the_costs(folder):
    first, second, grouped = evaluate("net=a.txt,b.txt", "--costs", NIST_2010)
    assert grouped["mean_min_dcf"] == pytest.approx((first["min_dcf"] + second["min_dcf"]) / 2)
    assert grouped["mean_min_dcf"] != pytest.approx(evaluate("net=a.txt,b.txt")[2]["mean_min_dcf"])
    bounds = grouped["interval_95_min_dcf"]
    assert bounds["low"] < grouped["mean_min_dcf"] < bounds["high"]


def test_which_system_leads_follows_from_the_costs():
    """One rejects a quarter of bona fide speech, the other accepts half of the spoofs.

    Of the default costs they are alike.
    """
    careful = np.concatenate([np.where(np.arange(100) < 75, 5.0, 0.0), np.zeros(100)])
    eager = np.concatenate([np.full(100, 5.0), np.where(np.arange(100) < 48, 5.0, 0.0)])
    labels = np.repeat([1, 0], 100)
    rng = np.random.default_rng(0)
    systems = []
    for values in (careful, eager):
        noise = rng.normal(0, 0.1, 200)
        systems.append(Scores([str(number) for number in range(200)], labels, values + noise))
    for text, leader in (("p_spoof=0.01,cost_fa=1", 1), (NIST_2010, 0)):
        cost = with_costs(DetectionCost(), text)
        results = [result_of(DetCurve.of_scores(one), cost) for one in systems]
        leading = leaders(results, lambda index: (systems[index], None), 200, cost)
        assert leading["min_dcf"] == leader


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p_spoof=0", "the prior must lie between 0 and 1"),
        ("p_spoof=1", "the prior must lie between 0 and 1"),
        ("cost_fa=nan", "costs above 0"),
        ("cost_miss=inf", "costs above 0"),
        ("cost_miss=-1", "costs above 0"),
        ("cost_fa=1_0", "'cost_fa=1_0' is not NAME=NUMBER"),
        ("cost_fa", "'cost_fa' is not NAME=NUMBER"),
        ("p_target=0.01", "Names: p_spoof, cost_miss, cost_fa, asvspoof2019"),
        ("add2023", "Names: p_spoof, cost_miss, cost_fa, asvspoof2019"),
    ],
)
def test_impossible_costs_are_refused(text, message):
    with pytest.raises(UsageError, match=f"^--costs {text}: ") as error:
        with_costs(DetectionCost(), text)
    assert message in str(error.value)


def test_impossible_costs_of_a_tandem_are_refused():
    for change in ({"miss": 0}, {"spoof_false_alarm": np.inf}, {"miss": np.nan}):
        with pytest.raises(ValueError, match="sum of 1, and costs above 0"):
            TandemCost(**change)


def test_intervals_of_a_papers_table_are_over_known_speakers(folder):
    record = evaluate("a.txt", "--threshold", "0.4", "--latex", "out.tex")[0]
    latex = (folder / "out.tex").read_text(encoding="utf-8")
    bounds = record["intervals_95"]
    for key, scale, digits in (("eer", 100, 2), ("min_dcf", 1, 4)):
        shown = [
            f"({scale * one[key]['low']:.{digits}f}--{scale * one[key]['high']:.{digits}f})"
            for one in (bounds["speakers"], bounds["trials"])
        ]
        assert shown[0] in latex and shown[1] not in latex
    decided = record["decisions"]["intervals_95"]["speakers"]["accuracy"]
    assert f"({100 * decided['low']:.2f}--{100 * decided['high']:.2f})" in latex
    assert "in brackets: 95 \\% intervals over speakers}" in latex


def test_a_set_without_speakers_has_intervals_over_trials(folder, capsys):
    main(["evaluate", "a.txt", "--replicates", "40", "--latex", "out.tex"])
    latex = (folder / "out.tex").read_text(encoding="utf-8")
    assert "in brackets: 95 \\% intervals over trials}" in latex


def test_plans_are_known_by_name():
    plans = {"nist2008": (0.99, 10, 1), "nist2010": (0.999, 1, 1)}
    plans |= dict.fromkeys(("asvspoof2019", "asvspoof5"), (0.05, 1, 10))
    for name, values in plans.items():
        assert with_costs(DetectionCost(), name) == DetectionCost(*values)
        with pytest.raises(UsageError, match="nist2010"):
            with_costs(DetectionCost(), f"{name}x")
        with pytest.raises(UsageError, match="is not NAME=NUMBER"):
            with_costs(DetectionCost(), name, {"p_spoof": "spoof_prior"})
