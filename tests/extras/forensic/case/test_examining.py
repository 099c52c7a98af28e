"""Facts of a file, its outline, errors of a validation set, and the sentences of a case."""

import math
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from asdf.extras.forensic.case.examining import Case, Examined, read_facts, read_outline, validate
from asdf.extras.forensic.case.pages import case_page
from asdf.extras.forensic.case.wording import propositions, ratio_text
from asdf.extras.forensic.support import SupportColumn, Supported
from asdf.metrics.calibration import Calibration, calibrate
from asdf.scoring.document import Heading, Provenance
from asdf.scoring.scored import Scored
from asdf.trials.score_file import Scores


def test_facts_of_a_file(tmp_path):
    path = tmp_path / "a.flac"
    with soundfile.SoundFile(path, "w", 44100, 2, "PCM_24") as file:
        file.title = "a call"
        file.write(np.zeros((44100, 2)))
    facts = read_facts(str(path))
    assert (facts.format, facts.codec, facts.channels) == ("FLAC", "PCM_24", 2)
    assert facts.seconds == 1 and facts.size == path.stat().st_size
    assert facts.tags == {"title": "a call"}


def test_an_outline_is_the_extremes_of_equal_parts(tmp_path):
    path = tmp_path / "a.wav"
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 1010)
    soundfile.write(path, samples, 16000, "DOUBLE")
    outline = read_outline(str(path), points=100)
    assert outline.part_s == 11 / 16000
    expected = [samples[start : start + 11] for start in range(0, 1010, 11)]
    assert outline.low == pytest.approx([part.min() for part in expected], abs=1e-4)
    assert outline.high == pytest.approx([part.max() for part in expected], abs=1e-4)


def test_errors_are_counted_before_ratios_are_bounded() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 0], 50)
    scores = Scores([f"r{index}" for index in range(100)], labels, rng.normal(2.0 * labels))
    unbounded = calibrate(scores.bona_fide, scores.spoof)
    calibration = replace(unbounded, lowest_llr=-1.0, highest_llr=1.0)
    llrs = calibration.unbounded_llr(scores.scores)
    # Above the highest ratio that is claimed, but not above all that decisions are made from.
    threshold = 1.5
    assert np.max(calibration.llr(scores.scores)) < threshold < np.max(llrs[labels == 1])
    known = validate("set", scores, calibration, threshold, None, None, replicates=20)
    assert known.misses is not None and known.false_alarms is not None
    assert known.misses.value == np.mean(llrs[labels == 1] < threshold) < 1
    assert known.false_alarms.value == np.mean(llrs[labels == 0] >= threshold)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1, "1"), (1.26, "1.3"), (9.96, "10"), (67.4, "67"), (1234, "1,200"), (1e20, "10^20")],
)
def test_ratios_have_two_digits(ratio, text):
    assert ratio_text(math.log(ratio)) == text


def test_the_population_is_the_calibration_set():
    calibration = Calibration(1.0, 0.0, 0.0, set="calls", bona_fide=80, spoof=90)
    assert "calls: 80 bona fide and 90 spoofed" in propositions(calibration)["population"]
    assert "does not name" in propositions(Calibration(1.0, 0.0, 0.0))["population"]
    assert "not likelihood ratios" in propositions(None)["population"]


def test_a_page_may_have_nothing_but_the_verdict_to_say():
    """As where a column of one's own cannot tell, and the ratio is clear."""
    sure = Supported(3.0, None, (2.0, 4.0), "moderate support for bona fide")
    columns = {"llr": SupportColumn}
    result = Scored(0, None, 3.0, verdict="undecided", values={"llr": sure}, columns=columns)
    heading = Heading("", "net.pt", "llr", 0.0, "bona fide from an LLR of 0 on")
    recordings = (Examined("call.wav", None, result),)
    made_by = Provenance("1", "2", None, "", {})
    rest = (None, None, "", "asdf case net.pt call.wav", (4.0, 2.0))
    page = case_page(Case(recordings, "net.pt", heading, made_by, {}, *rest))
    assert "Verdict: undecided." in page
