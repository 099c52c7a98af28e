"""One finite score a trial, in list order, whatever the batches."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from asdf import Detector
from asdf.audio import read_audio
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.recordings import write_recordings
from tests.small_networks import Normed, Plain
from tests.unit.conftest import list_scores, network_settings

LENGTHS = np.array([6000, 2500, 6000, 4001, 4100, 9000, 3999, 2500])


@pytest.fixture
def utterances(tmp_path):
    rng = np.random.default_rng(1)
    waveforms = [rng.uniform(-0.5, 0.5, length) * rng.uniform(0.1, 1) for length in LENGTHS]
    return write_recordings(tmp_path, waveforms)


def scoring_settings(**network) -> Sections:
    chosen = {"minibatch_size": 2, "train_clip_size": 6000}
    chosen["min_evaluation_utterance_length_in_samples"] = 4000
    chosen["max_evaluation_utterance_length_in_samples"] = 8000
    settings = network_settings(**{**chosen, **network})
    settings.computing.network_dataloader_workers = 0
    return settings


def plain() -> nn.Module:
    torch.manual_seed(0)
    return Plain(Sections())


def scores(network, utterances, lengths=LENGTHS, stop=None, **changes) -> np.ndarray:
    return list_scores(network, utterances, lengths, scoring_settings(**changes), stop)


def one_by_one(network, utterances) -> np.ndarray:
    """Return logit 1 of each utterance alone, repeated to 4000 or cut to 8000 samples."""
    with torch.inference_mode():
        waveforms = [read_audio(utterances.path(i)) for i in range(len(utterances))]
        fitted = [np.resize(w, max(len(w), 4000))[:8000] for w in waveforms]
        scores = [float(network(torch.from_numpy(w)[None])[1][0, 1]) for w in fitted]
        return np.array(scores, np.float32)


def test_each_trial_has_the_bona_fide_logit_of_its_whole_length(utterances):
    """In batches of any size, and in any order."""
    network = plain()
    expected = one_by_one(network, utterances)
    for size in (1, 2, 3, 50):
        result = scores(network, utterances, minibatch_size=size)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, expected, atol=1e-5)
    mixed = np.random.default_rng(3).permutation(len(LENGTHS))
    shuffled = scores(network, utterances.select(mixed), LENGTHS[mixed])
    np.testing.assert_allclose(shuffled, expected[mixed], atol=1e-5)


def test_wav2vec_and_aasist_score_the_same_in_a_batch_and_alone(utterances):
    """4000 and 4001 samples give equally many frames: they share a batch, cut alike."""
    chosen = scoring_settings()
    chosen.front_end.architecture = "tiny"
    torch.manual_seed(0)
    network = build_network(chosen).eval()
    with torch.no_grad():  # a fresh network's scores hardly differ
        for parameter in network.parameters():
            parameter.mul_(1.3)
    some = np.array([1, 3, 4, 6, 7])
    arguments = (network, utterances.select(some), LENGTHS[some], chosen)
    batched = list_scores(*arguments)
    chosen.network.minibatch_size, chosen.network.eval_minibatch_size_factor = 1, 0.01
    alone = list_scores(*arguments)
    assert np.ptp(alone) > 1e-3
    np.testing.assert_allclose(batched, alone, atol=1e-5)


def test_scoring_is_in_evaluation_mode_and_leaves_the_network_as_it_was(utterances):
    torch.manual_seed(0)
    network = Normed(Sections()).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = scores(network, utterances)
    assert network.training and network.dropout.training
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    assert np.array_equal(scores(network, utterances), first)
    network.eval()
    assert np.array_equal(scores(network, utterances), first) and not network.training


class BrokenFor(Plain):
    """Not a number for utterances of 6000 samples."""

    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        return embeddings_BE, logits_B2 * (torch.nan if waveforms_BT.shape[1] == 6000 else 1)


def test_scores_that_are_not_finite_are_an_error_that_names_the_trials(utterances):
    message = r"^2 of the 8 scores of mine are not finite numbers, first: 0\.wav, 2\.wav\."
    with pytest.raises(AsdfError, match=message):
        scores(BrokenFor(Sections()), utterances)


def test_a_broken_recording_is_named(utterances):
    utterances.path(3).write_bytes(b"no audio")
    with pytest.raises(AsdfError, match=r"3\.wav is not audio"):
        scores(plain(), utterances)


def test_a_stop_request_ends_the_scoring_without_scores(utterances):
    stop = StopRequest()
    stop.reason = "signal SIGTERM"
    with pytest.raises(Stopped, match="stopped by signal SIGTERM while scoring mine"):
        scores(plain(), utterances, stop=stop)


def threads_of(network) -> list[int]:
    """Return the threads in which `network` is computed from now on."""
    threads: list[int] = []
    network.register_forward_pre_hook(lambda *_: threads.append(threading.get_ident()))
    return threads


def test_a_network_is_computed_by_the_thread_that_asks_for_scores(utterances, network_file):
    """One thread, in which torch caches what cuDNN has chosen for a shape."""
    network = plain()
    threads = threads_of(network)
    # With a stop request recordings are read in another thread.
    scores(network, utterances)
    assert len(threads) >= 2 and set(threads) == {threading.get_ident()}
    detector = Detector(network_file, device="cpu", engine="plain")
    threads = threads_of(detector._scorer._network)
    paths = [utterances.path(index) for index in range(len(utterances))]
    assert len(list(detector.score_many(paths))) == len(paths)
    detector.score_trial(paths[0])
    detector.warm_up(0.5)
    assert len(threads) >= 6 and set(threads) == {threading.get_ident()}
