"""A threshold for windows, which `calibrate` learns from recordings."""

import pytest
import soundfile
import torch

import asdf
from asdf.extras.forensic.calibrating.learning import learn_window_threshold
from asdf.scoring.parts import PartSearch, read_window_threshold
from tests.extras.forensic.calibrating.conftest import LONG, run
from tests.unit.conftest import sound


@pytest.mark.slow
def test_windows_get_a_threshold_of_their_own(capsys, folder):
    """The whole command: the threshold is the rank of the recordings' lowest windows."""
    words = ("--output", "windows.pt", "--windows", "long", "--windows-rate", "0.1")
    torch.manual_seed(0)
    # Noise of these levels is no speech to the check, which windows are judged by.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asdf.audio.speech_check.has_speech", lambda _: True)
        status, out, errors = run(capsys, "calibrate", "net.pt", "scores.txt", *words)
        assert status == 0, errors
        detector = asdf.Detector("windows.pt", "cpu")
        learnt = read_window_threshold(detector.calibration.windows)
        # What a detector without it compares windows with.
        results = [detector.score_whole(f"long/{index:02}.wav") for index in range(19)]
        scores = [[window.compared for window in each.windows_scores] for each in results]
        lowest = [min(values) for values in scores]
        highest = detector.calibration.threshold
        # floor(0.1 * 20) = 2.
        assert learnt.threshold == pytest.approx(min(sorted(lowest)[1], highest), abs=1e-4)
        again = learn_window_threshold(scores, 0.1, learnt.window, learnt.hop, highest)
        assert learnt.counts == again.counts
        assert min(learnt.counts) >= 3
        search = detector.pipeline.summary.search
        assert isinstance(search, PartSearch) and search.threshold == learnt.threshold
        below = sum(value < learnt.threshold - 1e-4 for value in lowest)
        assert below <= 1
        assert results[0].searched.false_alarms.recordings == 19
    assert f"{learnt.describe()}\n" in out


def test_what_fails_on_the_way_leaves_the_network_as_it_was(capsys, folder, tmp_path):
    """It is written once, at the end; recordings that are too short are known before the work."""
    own = tmp_path / "own.pt"
    own.write_bytes((folder / "net.pt").read_bytes())
    for index in range(25):
        soundfile.write(tmp_path / f"{index}.wav", sound(6000, index), 16000)
    words = ("calibrate", own, "scores.txt", "--windows", tmp_path)
    status, out, errors = run(capsys, *words)
    assert status == 1 and "only 0 genuine recordings have windows of" in errors
    assert "LLR =" not in out
    assert own.read_bytes() == (folder / "net.pt").read_bytes()


def test_windows_of_few_or_broken_recordings_are_refused(capsys, folder, tmp_path):
    (tmp_path / "few").mkdir()
    for index in range(3):
        soundfile.write(tmp_path / "few" / f"{index}.wav", sound(LONG, index), 16000)
    words = ("calibrate", "net.pt", "scores.txt", "-o", tmp_path / "o.pt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asdf.audio.speech_check.has_speech", lambda _: True)
        status, _, errors = run(capsys, *words, "--windows", tmp_path / "few")
        assert status == 1 and "needs at least 19" in errors
    (tmp_path / "few" / "broken.wav").write_bytes(b"no audio")
    status, _, errors = run(capsys, *words, "--windows", tmp_path / "few")
    assert status == 1 and "broken.wav" in errors and "It is one of the recordings" in errors
    status, _, errors = run(capsys, *words, "--windows-rate", "0.1")
    assert status == 2 and "--windows-rate needs --windows" in errors
    status, _, errors = run(capsys, *words, "--windows", "long", "--windows-rate", "2")
    assert status == 2 and "give a proportion" in errors
