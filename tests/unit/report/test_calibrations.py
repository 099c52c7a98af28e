"""The page of a run whose network is calibrated has the pictures of its likelihood ratios."""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asdf.evaluation import cllr, read_scores
from asdf.metrics.calibration import Calibration
from asdf.report import report_page
from asdf.report.llr_pictures import llr_section, read_run_calibration
from tests.unit.conftest import write_small_network
from tests.unit.report.folders import gathered_of, make_run

SCALE, OFFSET, HIGHEST = 2.0, -1.5, 3.0
CALIBRATION = Calibration(
    SCALE, OFFSET, 0.0, set="dev", bona_fide=40, spoof=60, lowest_llr=-3.0, highest_llr=HIGHEST
)


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
    return tuple(
        np.clip(SCALE * values + OFFSET, -3.0, HIGHEST)
        for values in (scores.bona_fide, scores.spoof)
    )


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
