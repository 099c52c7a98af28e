"""What a summary holds: pooled metrics, intervals, conditions, findings."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import AsvScores, Scores, confidence_intervals, eer, evaluate, min_tdcf, t_eer
from asdf.metrics import detection
from asdf.metrics.bootstrap import speaker_block_draws, speaker_draws
from asdf.metrics.detection import DetCurve, into_blocks, pessimistic_order
from asdf.metrics.results import Result
from asdf.metrics.summary import Summary, speakers_of, summarise
from asdf.metrics.tandem import asv_rates
from asdf.trials.trial_list import TrialList

RNG = np.random.default_rng(3)
COUNT = 240
LABELS = np.arange(COUNT) % 3 // 2
SCORES = Scores([f"u{i}" for i in range(COUNT)], LABELS, RNG.normal(0, 1, COUNT) + 1.5 * LABELS)
COLUMNS = {
    "speaker": [f"s{i % 13}" for i in range(COUNT)],
    "attack": ["-" if label else f"A{i % 2}" for i, label in enumerate(LABELS)],
    # c2 is of bona fide trials only, c3 of spoofs only; an unknown value is no condition
    "codec": ["", "", "", "c1", "c0", "c2", "c3", *(f"c{i % 2}" for i in range(7, COUNT))],
    "vocoder": ["bonafide" if label else f"v{i % 4}" for i, label in enumerate(LABELS)],
    "constant": ["x"] * COUNT,
}
# The protocol in another order, with folders, and with trials that have no score.
ORDER = RNG.permutation(COUNT)
TRIALS = TrialList(
    [f"flac/u{i}.flac" for i in ORDER] + ["flac/more.flac"],
    np.append(LABELS[ORDER], 1),
    columns={name: [values[i] for i in ORDER] + ["else"] for name, values in COLUMNS.items()},
)


def _result(chosen) -> Result:
    chosen = np.asarray(chosen)
    return evaluate(Scores(["u"] * chosen.sum(), LABELS[chosen], SCORES.scores[chosen]))


def _results(summary: Summary, column: str) -> dict[str, Result]:
    return {condition.value: condition.result for condition in summary.of_column(column)}


def test_spoofs_of_an_attack_are_compared_with_all_bona_fide_trials():
    summary = summarise("system", "set", SCORES, TRIALS, replicates=0)
    attack = np.array(COLUMNS["attack"])
    expected = {value: _result((attack == value) | (LABELS == 1)) for value in ("A0", "A1")}
    assert _results(summary, "attack") == expected
    assert {condition.bona_fide for condition in summary.conditions} == {"all"}
    assert summary.result == evaluate(SCORES)
    assert summary.scores.attacks == COLUMNS["attack"]
    assert (summary.name, summary.set) == ("system", "set")
    # A spoof of no known vocoder does not make bona fide trials a condition.
    vocoder = ["-" if label else ("-", "v1", "v2")[i % 3] for i, label in enumerate(LABELS)]
    trials = TrialList(SCORES.ids, LABELS, columns={"vocoder": vocoder})
    summary = summarise("system", "set", SCORES, trials, by=["vocoder"], replicates=0)
    assert {condition.bona_fide for condition in summary.conditions} == {"all"}
    assert not (summary.intervals or summary.speaker_intervals or summary.tandem)


def test_a_column_of_both_classes_is_compared_by_value():
    by = ("codec", "constant", "vocoder", "no such")
    summary = summarise("system", "set", SCORES, TRIALS, by=by, replicates=0)
    assert summary.columns == ("codec", "vocoder")
    codec, vocoder = np.array(COLUMNS["codec"]), np.array(COLUMNS["vocoder"])
    assert _results(summary, "codec") == {x: _result(codec == x) for x in ("c0", "c1")}
    expected = {f"v{i}": _result((vocoder == f"v{i}") | (LABELS == 1)) for i in range(4)}
    assert _results(summary, "vocoder") == expected
    assert [condition.bona_fide for condition in summary.conditions] == ["same"] * 2 + ["all"] * 4
    assert [finding.message for finding in summary.findings] == [
        "by codec: left out because bona fide or spoof trials are missing: c2, c3 (2 values)."
    ]


def test_average_counts_each_value_the_same():
    summary = summarise("system", "set", SCORES, TRIALS, by=("attack", "codec"), replicates=0)
    first, second = _results(summary, "codec").values()
    average = summary.average("codec")
    assert average.eer == pytest.approx((first.eer + second.eer) / 2, abs=1e-15)
    assert average.cllr == pytest.approx((first.cllr + second.cllr) / 2, abs=1e-15)


def test_attacks_of_the_score_file_do_without_a_protocol():
    scores = Scores(SCORES.ids, SCORES.labels, SCORES.scores, columns={"attack": COLUMNS["attack"]})
    with_protocol = summarise("system", "set", SCORES, TRIALS, replicates=0)
    assert summarise("system", "set", scores, replicates=0).conditions == with_protocol.conditions


def test_intervals_are_those_of_the_bootstrap():
    reports, options = [], {"replicates": 100, "seed": 4}

    def progress(*done: int) -> None:
        reports.append(done)

    summary = summarise("s", "", SCORES, TRIALS, progress=progress, **options)
    assert summary.intervals == confidence_intervals(SCORES, **options)
    by_speaker = confidence_intervals(SCORES, speakers=COLUMNS["speaker"], **options)
    assert summary.speaker_intervals == by_speaker
    assert by_speaker != summary.intervals
    assert reports[-1] == (200, 200)


@pytest.mark.parametrize("unknown", ["", "-"])
def test_no_interval_over_speakers_unless_all_are_known(unknown):
    columns = {"speaker": [unknown, *COLUMNS["speaker"][1:]]}
    trials = TrialList(SCORES.ids, LABELS, columns=columns)
    summary = summarise("s", "", SCORES, trials, replicates=20)
    assert summary.intervals is not None
    assert summary.speaker_intervals is None
    assert speakers_of(SCORES, trials) is None
    alone = TrialList(SCORES.ids, LABELS, columns={"speaker": ["one"] * COUNT})
    assert summarise("s", "", SCORES, alone, replicates=20).speaker_intervals is None


def test_speakers_drawn_in_blocks_are_speakers_drawn_with_their_trials():
    blocks = into_blocks(DetCurve.of_scores(SCORES))
    speakers = COLUMNS["speaker"]
    trials = speaker_draws(LABELS, speakers, 40, np.random.default_rng(7))
    expected = np.array([blocks.sums(*weights) for weights in trials])
    parts = speaker_block_draws(blocks, LABELS, speakers, 40, np.random.default_rng(7))
    drawn = np.concatenate([np.stack(part, axis=1) for part in parts])
    assert np.array_equal(drawn, expected)


def test_tandem_metrics_are_of_the_distributions_of_asv_scores():
    asv = AsvScores(RNG.normal(3, 1, 300), RNG.normal(-3, 1, 400), RNG.normal(1, 1, 500))
    tandem = summarise("s", "", SCORES, asv=asv, replicates=0).tandem
    assert tandem is not None
    assert (tandem.asv_eer, tandem.asv_threshold) == eer(asv.target, asv.nontarget)
    assert tandem.tdcf_2021 == min_tdcf(SCORES.bona_fide, SCORES.spoof, asv_rates(asv))
    # Which bona fide trial a target or nontarget claim was made with changes nothing.
    halves = SCORES.bona_fide[::2], SCORES.bona_fide[1::2]
    assert tandem.t_eer == t_eer(asv, AsvScores(*halves, SCORES.spoof))


def test_an_asv_system_that_accepts_no_spoof_leaves_the_tdcf_undefined():
    asv = AsvScores(np.array([3.0, 4.0]), np.array([-3.0, -4.0]), np.array([-9.0, -8.0]))
    with pytest.raises(AsdfError, match="mine: the t-DCF is not defined"):
        summarise("mine", "", SCORES, asv=asv, replicates=0)


def test_errors_name_the_system():
    broken = Scores(SCORES.ids, LABELS, np.where(np.arange(COUNT) == 5, np.nan, SCORES.scores))
    alone = [Scores(SCORES.ids, np.full(COUNT, label), SCORES.scores) for label in (0, 1)]
    turned, single = TrialList(SCORES.ids, 1 - LABELS), TrialList(["u0"], LABELS[:1])
    for message, *arguments in (
        ("all 240 trials are of one class, none is bona fide", alone[0]),
        ("all 240 trials are of one class, none is spoof", alone[1]),
        ("1 of 240 scores are NaN or infinite, the first one of 'u5'", broken),
        ("239 of 240 scored trials are not in the protocol: 'u1', 'u2'", SCORES, single),
        ("240 of 240 trials are labelled differently .* All of them", SCORES, turned),
    ):
        with pytest.raises(AsdfError, match=f"^mine: {message}"):
            summarise("mine", "", *arguments)


def test_scores_turned_round_are_a_finding():
    turned = Scores(SCORES.ids, LABELS, -SCORES.scores)
    findings = summarise("s", "", turned, replicates=0).findings
    assert [finding.level for finding in findings] == ["warning"]
    assert findings[0].message.startswith("the scores look inverted")


def test_trials_of_several_subsets_are_a_finding():
    subsets = ["eval"] * 100 + ["hidden"] * 60 + ["progress"] * 80
    trials = TrialList(SCORES.ids, LABELS, columns={"subset": subsets})
    (finding,) = summarise("s", "", SCORES, trials, replicates=0).findings
    assert "240 trials of all subsets (eval 100, hidden 60, progress 80)" in finding.message
    published = "published numbers are for subset eval of its protocol (100 trials)"
    assert published in finding.message
    for subset in ("eval", "progress"):
        alone = TrialList(SCORES.ids, LABELS, columns={"subset": [subset] * COUNT})
        assert summarise("s", "", SCORES, alone, replicates=0).findings == ()


def test_the_pooled_trials_are_sorted_once(monkeypatch):
    """Metrics, intervals, checks and t-DCFs share one DET curve; each condition has another."""
    sizes = []

    def count(bona_fide, spoof):
        sizes.append(bona_fide.size + spoof.size)
        return pessimistic_order(bona_fide, spoof)

    monkeypatch.setattr(detection, "pessimistic_order", count)
    asv = AsvScores(RNG.normal(4, 1, 50), RNG.normal(0, 1, 51), RNG.normal(3, 1, 52))
    options = {"by": ["codec"], "asv": asv, "replicates": 25, "condition_replicates": 25}
    summary = summarise("system", "set", SCORES, TRIALS, **options)
    assert all(condition.interval is not None for condition in summary.conditions)
    assert summary.speaker_intervals is not None
    # The pooled trials, two values of the codec, the ASV system's targets against nontargets.
    assert sizes == [COUNT, 117, 118, 101]
