"""Maps of networks that hear known parts of a recording alone."""

import copy

import numpy as np
import pytest
import torch

import asdf
from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.why.cells import make_cells, make_grid
from asdf.extras.forensic.why.explaining import Explainer, explain
from asdf.extras.forensic.why.explanation import Options, explanation_text
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import CANNOT_TELL
from tests.unit.conftest import small_settings, write_small_network

BOTH = ("occlusion", "gradients")
RATE = 16_000


def noise(samples: int = RATE, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(samples)).astype(np.float32)


def options(**values) -> Options:
    return Options(**{"methods": BOTH, "shuffles": 0, "filler": "silence", **values})


def test_a_network_that_hears_one_stretch_has_a_map_of_that_stretch(listener):
    recording = noise()
    explanation = explain(listener("OneStretch"), recording, RATE, options())
    assert explanation.grid.stretches == (0, 4000, 8000, 12000, 16000)
    energy = float((recording[4800:7200].astype(np.float64) ** 2).sum())
    assert explanation.score == pytest.approx(energy, rel=1e-5)
    assert explanation.toward == "bona fide"
    for found in explanation.maps:
        # All of the score, in this stretch: silence in its place leaves none.
        assert found.stretches_S == pytest.approx([0, energy, 0, 0], abs=1e-5 * energy)
        assert np.abs(found.cells_SB[[0, 2, 3]]).max() < 1e-5 * energy
        assert (found.cells_SB[1] > 0.01 * energy).all()


def test_a_network_that_hears_one_band_has_a_map_of_that_band(listener):
    explanation = explain(listener("OneBand"), noise(), RATE, options())
    index = explanation.grid.bands_hz.index(1000)
    assert explanation.grid.band_hz(index) == (1000, 1500)
    for found in explanation.maps:
        expected = np.zeros(len(found.bands_B))
        expected[index] = explanation.score
        # Filtered recordings are cut off at their ends, which spreads a thousandth of them.
        assert found.bands_B == pytest.approx(expected, abs=2e-3 * explanation.score)
        assert found.marked_SB[:, index].all()


@pytest.mark.parametrize("filler", ["silence", "noise"])
def test_maps_of_a_linear_network_are_those_of_its_formula(listener, filler):
    recording = noise()
    explanation = explain(listener("Linear"), recording, RATE, options(filler=filler, seed=5))
    weights = np.cos(np.arange(RATE) * 0.3)
    cells = make_cells(explanation.grid, recording, filler, 5)
    stretches, bands = explanation.grid.shape
    expected = -np.einsum("t,st,bt->sb", weights, cells.gates_ST, cells.changes_BT)
    difference = float(weights @ (recording - cells.filler_T))
    assert explanation.score - explanation.filler_score == pytest.approx(difference, abs=1e-4)
    for found in explanation.maps:
        assert found.cells_SB == pytest.approx(expected, abs=2e-4)
        assert found.stretches_S == pytest.approx(expected.sum(1), abs=2e-4)
        assert found.bands_B == pytest.approx(expected.sum(0), abs=2e-4)
        sign = 1 if explanation.toward == "bona fide" else -1
        assert found.removal.cells == round(0.1 * stretches * bands)
        highest = np.sort(sign * expected.ravel())[-found.removal.cells :]
        assert found.removal.marked == pytest.approx(highest.sum(), abs=1e-3)
        assert found.removal.marked > found.removal.high > found.removal.random
        assert found.removal.p_value == 1 / 21


@pytest.mark.parametrize("filler", ["silence", "noise"])
def test_integrated_gradients_add_up_to_the_difference_of_scores(listener, filler):
    wanted = {"methods": ["gradients"], "filler": filler}
    found = explain(listener("Tangled"), noise(), RATE, options(**wanted, steps=64))
    sum_ = found.maps[0].cells_SB.sum()
    assert abs(found.score - found.filler_score) > 0.05
    assert sum_ == pytest.approx(found.score - found.filler_score, abs=1e-4)
    assert abs(found.maps[0].gap) < 1e-4
    # With two points the integral is rough, and the gap says so.
    rough = explain(listener("Tangled"), noise(), RATE, options(**wanted, steps=2))
    assert abs(rough.maps[0].gap) > 10 * abs(found.maps[0].gap)


@pytest.mark.parametrize("layer", ["last", "weighted"])
def test_a_frozen_front_end_gives_the_gradients_of_one_that_learns(tmp_path, layer):
    """Frozen weights need none, and the back end's have some: neither cuts the samples' off."""
    settings = small_settings(network_class="asdf.networks.SSL_ASP")
    settings.front_end.layer = layer
    maps = []
    for frozen in (True, False):
        settings.front_end.frozen = frozen
        path = write_small_network(tmp_path / f"{frozen}.pt", settings)
        wanted = options(methods=["gradients"], filler="noise", steps=4)
        found = explain(asdf.Detector(path, "cpu"), noise(8000), RATE, wanted)
        maps.append(found.maps[0].cells_SB)
    assert np.abs(maps[0]).max() > 1e-5
    assert maps[0].tolist() == maps[1].tolist()


def test_a_network_that_learns_behind_what_cuts_gradients_off_is_refused(listener):
    with pytest.raises(AsdfError, match="CutBefore stops gradients"):
        explain(listener("CutBefore"), noise(), RATE, options(methods=["gradients"]))


def test_maps_that_ignore_the_weights_do_not_change_with_them(listener):
    found = explain(listener("OneStretch"), noise(), RATE, options(shuffles=3, filler="noise"))
    for map_ in found.maps:
        # With the last bits of packed weights and plain ones.
        assert map_.weights.mean > 0.95
        assert map_.weights.hardly_changes


def test_maps_that_follow_the_weights_change_with_them_and_the_network_does_not(listener):
    detector = listener("Learned")
    network = detector.pipeline.scorer.networks[0]
    before = copy.deepcopy(network.state_dict())
    found = explain(detector, noise(), RATE, options(shuffles=4))
    again = explain(detector, noise(), RATE, options(shuffles=4))
    for map_, second in zip(found.maps, again.maps, strict=True):
        assert len(set(map_.weights.correlations)) == 4
        assert not map_.weights.hardly_changes
        assert map_.entry() == second.entry()
    for name, values in network.state_dict().items():
        assert torch.equal(values, before[name])


def test_of_a_long_recording_the_lowest_window_is_examined_or_the_stated_one(listener):
    detector = listener("OneStretch")
    recording = np.concatenate([noise(seed=1), 0.5 * noise(seed=2), noise(seed=3)])
    lowest = explain(detector, recording, RATE, options())
    assert (lowest.start_s, lowest.end_s) == (1, 2)
    second = float(detector.score_trial(recording[RATE : 2 * RATE], RATE))
    assert lowest.score == pytest.approx(second)
    stated = explain(detector, recording, RATE, options(start_s=2.5))
    assert (stated.start_s, stated.end_s) == (2.5, 3)
    assert stated.score == pytest.approx(float(detector.score_trial(recording[40_000:], RATE)))
    with pytest.raises(UsageError, match="ends before 3 s"):
        explain(detector, recording, RATE, options(start_s=3))


def test_the_side_is_that_of_the_threshold(listener):
    detector = listener("OneStretch")
    detector.threshold = 1e6
    found = explain(detector, noise(), RATE, options())
    assert found.toward == "spoof"
    # What pushes towards spoof is what raises the score least.
    assert not found.maps[0].marked_SB[1].any()


def test_the_side_is_decided_before_a_ratio_is_bounded(listener):
    detector = listener("OneStretch")
    raw = explain(detector, noise(), RATE, options()).score
    detector.calibration = Calibration(1.0, 0.0, 0.0, lowest_llr=-0.1 * raw, highest_llr=0.1 * raw)
    detector.threshold = 0.5 * raw
    assert detector.calibration.llr(raw) < detector.threshold < raw
    assert explain(detector, noise(), RATE, options()).toward == "bona fide"


@pytest.mark.parametrize(("llr", "is_clear"), [(0.5, False), (-0.5, False), (2.0, True)])
def test_a_ratio_that_does_not_tell_makes_nothing_a_spoof(tmp_path, llr, is_clear):
    calibration = Calibration(1e-6, llr, 0.0)
    path = write_small_network(tmp_path / "net.pt", calibration=calibration.content())
    wanted = options(methods=("occlusion",), draws=2)
    found = explain(asdf.Detector(path, "cpu"), noise(8000), RATE, wanted)
    assert found.is_clear == found.entry()["is_clear"] == is_clear
    text = explanation_text(found)
    assert (f"undecided: {CANNOT_TELL}" in text) == (not is_clear)
    assert f"what moves it towards {found.toward}, by" in text and "makes it" not in text


def test_passes_are_counted(listener):
    found = explain(listener("Learned"), noise(), RATE, options(shuffles=2, steps=8))
    stretches, bands = found.grid.shape
    cells = stretches * bands
    occlusion = cells + stretches + bands
    assert found.passes == 2 + occlusion + 8 + 2 * (1 + cells + 8) + 2 * (1 + 20)


def test_what_cannot_be_is_refused(listener):
    with pytest.raises(AsdfError, match="CutOff stops gradients"):
        explain(listener("CutOff"), noise(), RATE, options(methods=["gradients"]))
    with pytest.raises(AsdfError, match="not a finite number"):
        explain(listener("LogEnergy"), noise(), RATE, options())
    for wrong, message in (
        ({"methods": []}, "choose from occlusion, gradients"),
        ({"filler": "music"}, "noise or silence"),
        ({"stretch_s": 0.01}, "0.05 s is the shortest"),
        ({"stretch_s": float("nan")}, "0.05 s is the shortest"),
        ({"bands_hz": (0, 4000)}, "ascend from 0 to 8000"),
        ({"bands_hz": (0, 4000, 3000, 8000)}, "ascend from 0 to 8000"),
        ({"marked": 0}, "share of the cells"),
        ({"draws": 1}, "at least 2"),
        ({"start_s": -1}, "seconds from 0 on"),
    ):
        with pytest.raises(UsageError, match=message):
            Explainer(listener("OneBand"), options(**wrong))


def test_gradients_without_captum_name_the_extra(listener, monkeypatch):
    monkeypatch.setattr("asdf.extras.forensic.why.explanation.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"asdf-antispoofing\[why\]"):
        Explainer(listener("OneBand"), options())
    Explainer(listener("OneBand"), options(methods=["occlusion"]))


def test_speech_activity_detection_is_said(listener):
    recording = np.concatenate([noise(8000), 1e-6 * noise(16000), noise(8000)])
    found = explain(listener("OneStretch", sad="on"), recording, RATE, options())
    assert found.is_of_speech
    assert found.end_s < 1.5


@pytest.mark.parametrize("filler", ["silence", "noise"])
def test_cells_add_up_to_the_recording(filler):
    recording = noise(20_000)
    cells = make_cells(make_grid(20_000, 0.25, (0, 500, 2000, 8000)), recording, filler, 0)
    assert cells.gates_ST.sum(0) == pytest.approx(np.ones(20_000))
    everything = np.ones(cells.grid.shape, bool)
    assert cells.replace(~everything) == pytest.approx(recording)
    filler_T = cells.replace(everything)
    if filler == "silence":
        assert np.abs(filler_T).max() < 1e-6
    else:
        # White noise has the levels of white noise.
        assert filler_T.std() == pytest.approx(recording.std(), rel=0.02)
        assert abs(np.corrcoef(filler_T, recording)[0, 1]) < 0.05
    part = np.zeros(cells.grid.shape, bool)
    part[2] = True
    changed = np.flatnonzero(cells.replace(part) != recording)
    first, last = (round(RATE * edge) for edge in cells.grid.stretch_s(2))
    assert first - 80 <= changed[0] <= first + 80
    assert last - 80 <= changed[-1] <= last + 80
