"""A network is computed in one thread, in which torch caches what cuDNN has chosen for a shape."""

from __future__ import annotations

import threading

import numpy as np

from asdf import Detector
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.scoring.score_list import build_list_scorer, score_list
from tests.recordings import write_recordings
from tests.unit.conftest import small_settings, sound

LENGTHS = np.array([5000, 7000, 5000, 6000, 7000, 4500])


def threads_of(network) -> list[int]:
    """The threads in which `network` is computed from now on."""
    threads: list[int] = []
    network.register_forward_pre_hook(lambda *_: threads.append(threading.get_ident()))
    return threads


def test_a_list_is_computed_by_the_thread_that_scores_it(tmp_path):
    settings = small_settings()
    settings.computing.scoring_engine = "plain"
    network = build_network(settings)
    threads = threads_of(network)
    utterances = write_recordings(tmp_path, [sound(length) for length in LENGTHS])
    world = World()
    # With a stop request recordings are read in another thread.
    scorer = build_list_scorer(network, settings, world)
    score_list(scorer, utterances, LENGTHS, settings, world, StopRequest())
    assert len(threads) >= 2 and set(threads) == {threading.get_ident()}


def test_recordings_are_computed_by_the_thread_that_asks_for_scores(tmp_path, network_file):
    utterances = write_recordings(tmp_path, [sound(length) for length in LENGTHS])
    paths = [utterances.path(index) for index in range(len(utterances))]
    detector = Detector(network_file, device="cpu", engine="plain")
    threads = threads_of(detector._scorer._network)
    assert len(list(detector.score_many(paths))) == len(paths)
    detector.score_trial(paths[0])
    detector.warm_up(0.5)
    assert len(threads) >= 6 and set(threads) == {threading.get_ident()}
