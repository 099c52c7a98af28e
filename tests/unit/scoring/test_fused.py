"""A fused system as a detector: the scores of its networks, and every way to be scored."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.checkpoint.fused_file import read_fused_file
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.evaluation import read_scores, write_scores
from asdf.networks import build_network
from asdf.tasks.tracing.task import build_source_term
from asdf.trials.trial_list import TrialList
from tests.unit.conftest import small_settings, sound, write_small_network

# The second network hears more of a recording than the first.
LENGTHS = {"a": (4000, 8000), "b": (6000, 12000)}
LENGTH_SETTINGS = [f"{end}_evaluation_utterance_length_in_samples" for end in ("min", "max")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A list of recordings, two networks, and their score files."""
    folder = tmp_path_factory.mktemp("fused")
    lines = []
    for index in range(12):
        samples = 3000 + 500 * (index % 5) * (index % 7)
        soundfile.write(folder / f"{index}.wav", sound(samples, index), 16000)
        lines.append(f"{index}.wav {index % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    for name, (shortest, longest) in LENGTHS.items():
        lengths = dict(zip(LENGTH_SETTINGS, (shortest, longest), strict=True))
        network = write_small_network(folder / f"{name}.pt", small_settings(**lengths))
        words = [network, folder / "list.txt", "--scores", folder / f"{name}.txt"]
        assert main(["score", *map(str, words)]) == 0
    # Networks of random weights tell nothing apart: the development set is drawn.
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    for name, distance in (("a", 2.0), ("b", 1.0)):
        scores = rng.normal(size=60) + distance * labels
        write_scores(folder / f"{name}_dev.txt", [f"{i}" for i in range(60)], labels, scores)
    return folder


def fuse(folder: Path, *words: object) -> int:
    development = [folder / "a_dev.txt", folder / "b_dev.txt", "--replicates", 0]
    return main(["fuse", *map(str, [*development, *words])])


@pytest.fixture(scope="module", params=["logistic", "mean", "rank"])
def system(request, folder) -> Path:
    """A fused system, and the fused score file of the list."""
    path = folder / f"{request.param}.json"
    method = ("--method", request.param)
    networks = [folder / "a.pt", folder / "b.pt"]
    assert fuse(folder, *method, "--networks", *networks, "--out", path) == 0
    applied = [folder / "a.txt", folder / "b.txt"]
    out = path.with_suffix(".txt")
    assert fuse(folder, *method, "--apply", *applied, "--out", out) == 0
    return path


def score_list(system: Path, folder: Path, out: Path) -> int:
    return main(["score", str(system), str(folder / "list.txt"), "--scores", str(out)])


def test_a_list_gets_the_fused_score_file(system, folder, tmp_path):
    assert score_list(system, folder, tmp_path / "scores.txt") == 0
    scores = read_scores(tmp_path / "scores.txt")
    expected = read_scores(system.with_suffix(".txt"))
    assert scores.ids == expected.ids
    np.testing.assert_allclose(scores.scores, expected.scores, rtol=1e-6, atol=1e-6)
    again = tmp_path / "again.txt"
    assert score_list(system, folder, again) == 0
    assert again.read_bytes() == (tmp_path / "scores.txt").read_bytes()


def test_one_recording_gets_what_its_networks_say(system, folder):
    fusion = read_fused_file(system).fusion
    detector = asdf.Detector(system, "cpu")
    parts = [asdf.Detector(folder / f"{name}.pt", "cpu") for name in "ab"]
    assert (detector.length.min_samples, detector.length.max_samples) == (4000, 12000)
    assert detector.window_samples == 8000
    for name in ("1.wav", "8.wav", "11.wav"):
        alone = [[float(part.score_trial(folder / name)) for part in parts]]
        score = detector.score_trial(folder / name)
        assert score.raw == fusion.fuse(np.array(alone))[0]
        assert score == score.llr == detector.calibration.llr(score.raw)
        expected = "bona fide" if score >= score.threshold else "spoof"
        assert score.verdict == (expected if score.judged else None)


def test_windows_whole_recordings_streams_and_pieces_agree(system, folder):
    detector = asdf.Detector(system, "cpu")
    speech = sound(40000, 3).astype(np.float32)
    whole = detector.score_whole(speech, 16000)
    assert whole.windows == 5
    windows = detector.score_over_time(speech, 0.5, 0.5, 16000)
    llrs = [window.score for window in windows]
    assert whole.score == pytest.approx(np.mean(llrs), rel=1e-5)
    stream = detector.stream(16000, 0.5, 0.5)
    heard = [*stream.add(speech), *stream.finish()]
    np.testing.assert_allclose([window.score for window in heard], llrs, rtol=1e-5)
    pieces = detector.pipeline.cut(speech, whole=True)
    served, _ = detector.pipeline.conclude(pieces, detector.pipeline.score(pieces.all), "x")
    assert served.score == pytest.approx(whole.score, rel=1e-5)
    trial = detector.pipeline.cut(speech, whole=False)
    served, _ = detector.pipeline.conclude(trial, detector.pipeline.score(trial.all), "x")
    assert served.score == pytest.approx(float(detector.score_trial(speech, 16000)), rel=1e-5)
    with pytest.raises(UsageError, match="this network hears 8,000 samples"):
        detector.stream(16000, 0.7, 0.5)


def test_embeddings_and_single_networks_are_refused(system, folder):
    detector = asdf.Detector(system, "cpu")
    with pytest.raises(UsageError, match="a fused system has no embedding"):
        detector.score_trial(folder / "1.wav", embedding=True)
    with pytest.raises(UsageError, match="a fused system scores no frames"):
        detector.score_trial(folder / "1.wav", frames=True)
    assert main(["export", str(system), "--format", "onnx", str(folder / "out.onnx")]) == 1


def write_with_heads(path: Path) -> Path:
    settings = small_settings()
    settings.localisation.enabled = True
    settings.source.column = "attack"
    trials = TrialList(list("ab"), np.array([0, 0]), columns={"attack": ["A01", "A02"]})
    torch.manual_seed(0)
    network = build_network(settings)
    build_source_term(network, trials, settings)
    write_network_file(path, NetworkFile.from_network(network.eval(), settings))
    return path


def test_what_just_one_of_the_networks_gives_is_the_systems(folder, tmp_path):
    headed = write_with_heads(tmp_path / "c.pt")
    alone = asdf.Detector(headed, "cpu")
    networks = [folder / "a.pt", headed]
    assert fuse(folder, "--networks", *networks, "--out", tmp_path / "one.json") == 0
    system = asdf.Detector(tmp_path / "one.json", "cpu")
    for samples in (6000, 20_000):
        speech = sound(samples, 1).astype(np.float32)
        fused = system.score_trial(speech, 16000, frames=True)
        expected = alone.score_trial(speech, 16000, frames=True)
        assert fused.raw != expected.raw
        np.testing.assert_array_equal(fused.frames.scores, expected.frames.scores)
        assert fused.sources.log_probabilities == expected.sources.log_probabilities
    assert fuse(folder, "--networks", headed, headed, "--out", tmp_path / "two.json") == 0
    both = asdf.Detector(tmp_path / "two.json", "cpu")
    assert both.score_trial(speech, 16000).sources is None
    with pytest.raises(UsageError, match="a fused system scores no frames unless exactly one"):
        both.score_trial(speech, 16000, frames=True)


def test_a_copy_scores_the_same_bits(system, folder):
    detector = asdf.Detector(system, "cpu", threads=1)
    same = pickle.loads(pickle.dumps(detector))
    assert same.score_trial(folder / "1.wav") == detector.score_trial(folder / "1.wav")


@pytest.fixture
def moved(folder, tmp_path) -> Path:
    """A logistic system with its networks in another folder."""
    networks = [folder / "a.pt", folder / "b.pt"]
    assert fuse(folder, "--networks", *networks, "--out", folder / "x.json") == 0
    for name in ("x.json", "a.pt", "b.pt"):
        shutil.copy(folder / name, tmp_path)
    return tmp_path / "x.json"


def test_a_folder_with_all_of_it_may_be_moved(moved, folder):
    expected = asdf.Detector(folder / "x.json", "cpu").score_trial(folder / "1.wav")
    assert asdf.Detector(moved, "cpu").score_trial(folder / "1.wav") == expected


def test_a_changed_or_missing_network_is_refused(moved):
    detector = asdf.Detector(moved, "cpu")
    shutil.copy(moved.parent / "a.pt", moved.parent / "b.pt")
    with pytest.raises(AsdfError, match=r"b.pt is not the network that .*x.json was made for"):
        asdf.Detector(moved, "cpu")
    with pytest.raises(AsdfError, match="this detector cannot be copied"):
        pickle.dumps(detector)
    (moved.parent / "b.pt").unlink()
    with pytest.raises(AsdfError, match=r"there is no file .*b.pt"):
        asdf.Detector(moved, "cpu")


def test_networks_that_cut_silence_otherwise_are_refused(moved, folder):
    settings = small_settings()
    settings.sad.mode = "on"
    write_small_network(moved.parent / "b.pt", settings)
    words = ("--networks", moved.parent / "a.pt", moved.parent / "b.pt", "--out", moved)
    assert fuse(folder, *words) == 0
    with pytest.raises(AsdfError, match=r"do not hear the same parts.*sad\.mode = 'on'"):
        asdf.Detector(moved, "cpu")


def test_a_fused_system_is_calibrated_in_its_file(moved, folder, capsys):
    applied = [folder / "a_dev.txt", folder / "b_dev.txt"]
    out = moved.parent / "dev.txt"
    assert fuse(folder, "--apply", *applied, "--out", out) == 0
    before = json.loads(moved.read_text())
    words = ["calibrate", moved, out, "--costs", "p_spoof=0.3", "--method", "logistic"]
    assert main(list(map(str, words))) == 0
    after = json.loads(moved.read_text())
    calibration = after["calibration"]
    assert calibration["spoof_prior"] == 0.3
    # The fusion is the best map already.
    assert calibration["scale"] == pytest.approx(1, abs=1e-6)
    assert calibration["offset"] == pytest.approx(0, abs=1e-6)
    assert before["fusion"] == after["fusion"] and before["networks"] == after["networks"]
    assert asdf.Detector(moved, "cpu").threshold == calibration["threshold"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is neither a network nor a fused system"),
        ({"networks": 2}, "cannot be used"),
        ({"version": 2}, "was written by a newer ASDF"),
        ({"networks": []}, "the networks in"),
        ({"networks": [{"path": "a.pt"}, 1]}, "the networks in"),
        ({"fusion": {}}, "the fusion in"),
        ({"calibration": {"scale": -1}}, "the calibration in"),
    ],
)
def test_a_damaged_file_is_refused(moved, change, message):
    moved.write_text(json.dumps({**json.loads(moved.read_text()), **change}))
    with pytest.raises(AsdfError, match=message):
        asdf.Detector(moved, "cpu")


def test_what_is_no_json_is_refused(moved):
    moved.write_text("[" * 100_000)
    with pytest.raises(AsdfError, match="is damaged or not JSON"):
        asdf.Detector(moved, "cpu")
    with pytest.raises(AsdfError, match=r"there is no file "):
        asdf.Detector(moved.with_name("y.json"), "cpu")


def test_mistakes_in_the_command(folder, capsys):
    for networks, out, message in (
        (("a.pt", "b.pt"), "x.pt", "the name of a fused system must end in .json"),
        (("a.pt", "c.pt"), "x.json", "c.pt"),
        (("a.pt",), "x.json", "--networks has 1 values, but the fusion has 2 systems"),
    ):
        words = ("--networks", *(folder / name for name in networks), "--out", folder / out)
        assert fuse(folder, *words) == 2
        assert message in capsys.readouterr().err
