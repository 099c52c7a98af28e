"""The frames of a list: those of each recording by itself, the same bits on any number of ranks."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from asdf.audio import read_audio
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.scoring.detector import Detector
from asdf.scoring.score_list import ListOverTime, build_list_scorer, score_with_extras
from asdf.settings.sections import Sections
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Plain
from tests.unit.conftest import list_scores

# Repeated, of one batch, and beyond what is heard at once.
LENGTHS = (3000, 9000, 21_000, 9000, 40_100, 12_345)


@pytest.fixture(scope="module")
def utterances(tmp_path_factory):
    return write_recordings(tmp_path_factory.mktemp("list"), noise_waveforms(LENGTHS))


@pytest.fixture(scope="module")
def settings() -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.architecture = "tiny"
    settings.localisation.enabled = True
    settings.network.minibatch_size = 2
    settings.network.min_evaluation_utterance_length_in_samples = 4000
    settings.network.max_evaluation_utterance_length_in_samples = 16_000
    settings.computing.network_dataloader_workers = 0
    return settings


@pytest.fixture(scope="module")
def network(settings):
    torch.manual_seed(0)
    return build_network(settings)


def work(network, utterances, settings, wanted=("frames",)):
    scorer = build_list_scorer(network, settings, World())
    arguments = (scorer, utterances, np.array(LENGTHS), settings, World(), StopRequest())
    return score_with_extras(*arguments, wanted)


def test_frames_are_those_that_a_recording_has_by_itself(network, utterances, settings, tmp_path):
    scored = work(network, utterances, settings)
    scores, table = scored.scores, scored.over_time["frames"]
    write_network_file(tmp_path / "n.pt", NetworkFile.from_network(network, settings))
    detector = Detector(tmp_path / "n.pt", device="cpu")
    assert table.ids == utterances.ids
    assert table.hop_s == 0.02
    np.testing.assert_array_equal(table.durations_s, np.array(LENGTHS) / 16000)
    for index in range(len(utterances)):
        alone = detector.score_trial(utterances.path(index), frames=True)
        assert scores[index] == pytest.approx(float(alone), abs=1e-5)
        assert len(table.of_trial(index)) == -(-LENGTHS[index] // 320)
        np.testing.assert_allclose(table.of_trial(index), alone.frames.scores, atol=2e-5)


def test_scores_are_the_same_with_frames_and_without(network, utterances, settings):
    plain = list_scores(network, utterances, np.array(LENGTHS), settings)
    np.testing.assert_array_equal(plain, work(network, utterances, settings).scores)
    assert not work(network, utterances, settings, wanted=()).over_time


def test_a_share_of_the_batches_gives_the_same_bits(network, utterances, settings):
    """As each of several ranks computes it."""
    table = work(network, utterances, settings).over_time["frames"]
    scorer = build_list_scorer(network, settings, World())
    lengths = np.array(LENGTHS)
    for rank in range(2):
        part = ListOverTime(scorer, "frames", utterances, lengths, settings.sad)
        for batch in scorer.plan_batches(lengths)[rank::2]:
            read = [read_audio(utterances.path(index)) for index in batch.trials]
            waveforms = [np.resize(waveform, batch.samples) for waveform in read]
            computed = scorer.compute(torch.from_numpy(np.stack(waveforms)), ["frames"])
            part.add(batch, computed.extras["frames"])
        part.add_long(part.long_trials()[rank::2], StopRequest())
        scored = part.local_rows()
        assert scored
        for trial, scores in scored.items():
            np.testing.assert_array_equal(scores, table.of_trial(trial))


def test_a_network_without_frames_is_refused(utterances, settings):
    with pytest.raises(UsageError, match="Plain scores no frames"):
        work(Plain(settings), utterances, settings)


def test_frames_of_speech_whose_times_are_not_known_are_refused(network, utterances, settings):
    cut = deepcopy(settings)
    cut.sad.mode = "endpoint"
    with pytest.raises(UsageError, match=r"sad\.mode = 'endpoint' leaves parts out"):
        work(network, utterances, cut)
