"""Frame scores of a Detector: of all of a recording, however it was heard, and of nothing else."""

import numpy as np
import pytest
import soundfile
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.scoring.detector import Detector
from asdf.segments import Segment
from asdf.settings.sections import Sections
from asdf.tasks.localisation.frame_scores import Frames, FrameScores

HOP = 160
MAX_SAMPLES = 20_000


@pytest.fixture(scope="module")
def settings() -> Sections:
    settings = Sections()
    # Of spectra alone: a frame's score does not depend on what surrounds it.
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.front_end.front_end_class = "log_mel"
    settings.localisation.enabled = True
    settings.network.max_evaluation_utterance_length_in_samples = MAX_SAMPLES
    return settings


@pytest.fixture(scope="module")
def network(settings) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_network(settings).eval()


@pytest.fixture(scope="module")
def path(network, settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("framed") / "network.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    return path


@pytest.fixture(scope="module")
def detector(path) -> Detector:
    return Detector(path, device="cpu")


def noise(samples: int) -> np.ndarray:
    return np.random.default_rng(samples).uniform(-0.5, 0.5, samples).astype(np.float32)


def expected_scores(network, waveform: np.ndarray) -> np.ndarray:
    """What the network says of a waveform as a whole, whatever its length."""
    with torch.no_grad():
        logits_F2 = network(torch.from_numpy(waveform)[None]).extras["frames"][0]
    return (logits_F2[:, 1] - logits_F2[:, 0]).numpy()


# Shorter than what is scored, in between, and of several windows; the last of these ends in the
# frame after a window's end.
@pytest.mark.parametrize("samples", [3000, 16_000, 20_000, 20_001, 47_000, 90_100])
def test_frames_are_those_of_the_whole_recording(detector, network, samples):
    waveform = noise(samples)
    score = detector.score_trial((waveform, 16000), frames=True)
    frames = score.frames
    assert float(score) == float(detector.score_trial((waveform, 16000)))
    assert len(frames) == -(-samples // HOP)
    assert frames.hop_s == 0.01
    assert frames.seconds == samples / 16000
    expected = expected_scores(network, waveform)
    # Of windows of 400 samples: the last frames are of what is repeated, or as the one before.
    assert len(frames) - len(expected) in (1, 2, 3)
    np.testing.assert_allclose(frames.scores[: len(expected)], expected, atol=2e-5)
    whole = detector.score_whole((waveform, 16000), frames=True)
    np.testing.assert_allclose(whole.frames.scores, frames.scores, atol=2e-5)


def test_many_recordings_have_the_frames_of_each(detector, tmp_path):
    paths = []
    for number, samples in enumerate((3000, 47_000, 3000, 18_000)):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, noise(samples + number), 16000, subtype="FLOAT")
        paths.append(path)
    for whole in (False, True):
        results = detector.score_many(paths, whole=whole, frames=True)
        for result in sorted(results, key=lambda result: result.index):
            alone = detector.score_trial(paths[result.index], frames=True)
            np.testing.assert_allclose(result.frames.scores, alone.frames.scores, atol=2e-5)
            assert result.frames.seconds == alone.frames.seconds
    assert next(detector.score_many(paths)).frames is None


def test_a_network_without_such_a_head_has_no_frames(network_file):
    detector = Detector(network_file, device="cpu")
    with pytest.raises(UsageError, match=r"scores no frames: train a network with localisation"):
        detector.score_trial((noise(3000), 16000), frames=True)
    with pytest.raises(UsageError, match="scores no frames"):
        next(detector.score_many([(noise(3000), 16000)], frames=True))


def test_frames_of_speech_alone_are_refused(network, settings, tmp_path):
    settings.sad.mode = "endpoint"
    write_network_file(tmp_path / "n.pt", NetworkFile.from_network(network, settings))
    settings.sad.mode = "off"
    detector = Detector(tmp_path / "n.pt", device="cpu")
    with pytest.raises(UsageError, match=r"sad\.mode = 'endpoint' leaves parts out"):
        detector.score_trial((noise(30_000), 16000), frames=True)


def test_segments_are_runs_below_the_threshold():
    frames = FrameScores(np.array([1, -1, -2, 3, -0.5], np.float32), 0.02, 0.095)
    assert frames.segments() == (Segment(0.02, 0.06), Segment(0.08, 0.095))
    assert frames.segments(-0.7, min_s=0.03) == (Segment(0.02, 0.06),)


def test_frames_are_cut_or_completed():
    scores = np.array([1, 2, 3], np.float32)
    assert Frames(160).fit(scores, 320).tolist() == [1, 2]
    assert Frames(160).fit(scores, 481).tolist() == [1, 2, 3, 3]
