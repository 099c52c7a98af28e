"""Pictures of likelihood ratios: of all trials, on the page of a run that is calibrated."""

import math
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asdf.evaluation import cllr, read_scores
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import DetCurve, min_cllr
from asdf.report import report_page
from asdf.report.llr_pictures import (
    ece_panel,
    llr_section,
    read_run_calibration,
    reliability_panel,
    tippett_panel,
)
from tests.unit.conftest import write_small_network
from tests.unit.report.folders import gathered_of, make_run

SCALE, OFFSET, HIGHEST = 2.0, -1.5, 3.0
LEARNT_FROM = {"set": "dev", "bona_fide": 40, "spoof": 60}
CALIBRATION = Calibration(SCALE, OFFSET, 0.0, lowest_llr=-3.0, highest_llr=HIGHEST, **LEARNT_FROM)


def calibrate(run: Path, calibration: Calibration | None = CALIBRATION) -> None:
    """Put a network with a calibration where that of the run's report lies."""
    path = run / "networks" / "epoch.2.pt"
    path.parent.mkdir()
    write_small_network(path, calibration=calibration and calibration.content())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "small")


def llrs_of(run: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Both classes' ratios, by the formula."""
    scores = read_scores(run / "scores" / "epoch.2" / f"{name}.txt")
    classes = (scores.bona_fide, scores.spoof)
    return tuple(np.clip(SCALE * values + OFFSET, -3.0, HIGHEST) for values in classes)


def test_the_pictures_are_of_the_ratios_of_the_scores(run: Path) -> None:
    calibrate(run)
    gathered = gathered_of(run)
    for name in ("dev", "eval"):
        section = llr_section(gathered, name)
        bona_fide, spoof = llrs_of(run, name)
        total = cllr(bona_fide, spoof)
        assert f"small on {name}: Cllr {total:.3f} bits" in section["sentences"][1]
        assert [figure.kind for figure in section["figures"]] == ["tippett", "ece", "reliability"]
        # The corners are those of the ratios: `test_llr_pictures` holds each plot against them.
        tippett = section["figures"][0].panels[0]
        for line, values in zip(tippett.lines, (bona_fide, spoof), strict=True):
            corners = np.array(line.points).reshape(-1, 2)
            share = 100 * float(np.mean(values / math.log(10) >= 0.6))
            assert corners[corners[:, 0] >= 0.6][0, 1] == pytest.approx(share, abs=0.01)


def test_the_set_that_was_learnt_from_is_said_to_be(run: Path) -> None:
    calibrate(run)
    gathered = gathered_of(run)
    dev, evaluated = (llr_section(gathered, name)["sentences"] for name in ("dev", "eval"))
    assert "calibrated on dev: 40 bona fide and 60 spoofed recordings" in dev[0]
    assert len(dev) == 3 and "this very set" in dev[2]
    assert len(evaluated) == 2


def test_they_are_on_the_page(run: Path) -> None:
    before = report_page(gathered_of(run))
    assert "Likelihood ratios" not in before
    calibrate(run)
    page = report_page(gathered_of(run))
    for kind in ("tippett", "ece", "reliability"):
        assert len(re.findall(f'data-plot="{kind}"', page)) == 2
    # All else is what it was.
    shorter = re.sub(r"<h3>Likelihood ratios</h3>.*?</figure>\n</div>\n", "", page, flags=re.S)
    assert shorter == before


def test_a_network_without_a_calibration_changes_nothing(run: Path) -> None:
    before = report_page(gathered_of(run))
    calibrate(run, None)
    assert report_page(gathered_of(run)) == before


def test_what_is_no_network_has_no_calibration(tmp_path: Path) -> None:
    path = tmp_path / "epoch.2.pt"
    assert read_run_calibration(path) is None
    path.write_bytes(b"spoof_prior")
    assert read_run_calibration(path) is None
    # One that looks calibrated and cannot be read.
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"spoof_prior")
    assert read_run_calibration(path) is None


def test_of_two_systems_only_the_calibrated_one_is_drawn(run: Path, tmp_path: Path) -> None:
    calibrate(run)
    other = make_run(tmp_path / "other", shift=3)
    section = llr_section(gathered_of(run, other), "eval")
    assert [name for _, name in section["figures"][0].legends[0].entries] == ["bona fide", "spoof"]
    assert all(sentence.startswith("small") for sentence in section["sentences"])


RNG = np.random.default_rng(3)
BONA_FIDE, SPOOF = RNG.normal(2, 2, 50), RNG.normal(-2, 2, 70)
ONE = {"one": DetCurve.of(BONA_FIDE, SPOOF)}


def height_at(points: list[float], x: float) -> float:
    """Return the height of falling stairs at x."""
    corners = np.array(points).reshape(-1, 2)
    return float(corners[corners[:, 0] >= x][0, 1])


def test_tippett_curves_are_shares_of_both_classes():
    panel, legend = tippett_panel(ONE)
    assert list(legend) == ["bona fide", "spoof"]
    for line, llrs in zip(panel.lines, (BONA_FIDE, SPOOF), strict=True):
        for x in (-2.0, -0.31, 0.0, 0.5, 1.7):
            expected = 100 * float(np.mean(llrs / math.log(10) >= x))
            assert height_at(list(line.points), x) == pytest.approx(expected, abs=0.01)
        assert line.points[1] == 100 and line.points[-1] == 0
    wrong = 100 * float(np.mean(BONA_FIDE < 0))
    assert f"{wrong:.1f} % of bona fide recordings below" in panel.description


def test_large_sets_are_thinned_within_a_pixel():
    bona_fide = np.random.default_rng(1).normal(2, 2, 20_000)
    panel, _ = tippett_panel({"one": DetCurve.of(bona_fide, SPOOF)})
    line, _ = panel.lines
    assert len(line.points) < 3000
    for x in (-1.0, 0.0, 1.0, 2.0):
        expected = 100 * float(np.mean(bona_fide / math.log(10) >= x))
        assert height_at(list(line.points), x) == pytest.approx(expected, abs=0.3)


def test_cross_entropies_are_named_by_system():
    panel, legend = ece_panel({**ONE, "two": DetCurve.of(BONA_FIDE + 1, SPOOF)})
    ratios = [
        f"{name}: {which}" for name in ("one", "two") for which in ("as they are", "after PAV")
    ]
    assert list(legend) == [*ratios, "ratios of 1 (no information)"]
    looks = [line.index for line in panel.lines]
    assert looks == sorted(set(looks))
    whole, least = cllr(BONA_FIDE, SPOOF), min_cllr(BONA_FIDE, SPOOF)
    assert f"{whole:.3f} bits at prior odds of 1, {least:.3f}" in panel.description


def test_marks_of_reliability_say_how_many_recordings_they_are_of():
    _, legend = reliability_panel(ONE)
    (label, line), *_ = legend.items()
    counts = label.partition("(")[2].rstrip(")").split(", ")
    assert sum(map(int, counts)) == 120
    assert len(line.mark_words) == len(counts)
    assert f" of {counts[0]} (" in line.mark_words[0]
    for words in line.mark_words:
        _, rate, low, high = map(float, re.findall(r"(\d+\.\d)(?= %|–)", words))
        assert low <= rate <= high and low < high
