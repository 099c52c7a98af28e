"""How often the host waits for the device while it scores."""

import pytest

WAIT = "cudaEventSynchronize in distributed/reading.py"


@pytest.fixture(scope="module")
def results(on_null_gpu, corpus):
    return on_null_gpu("count_scoring", str(corpus))


def test_the_host_waits_once_a_list_and_once_a_batch_of_the_detector_and_of_features(results):
    assert results["list"] == {WAIT: 1}
    # Two batches of the Detector, three of the pass that computes features.
    assert (results["detector"], results["features"]) == ({WAIT: 2}, {WAIT: 3})


def test_the_command_that_scores_recordings_waits_once_for_each_length(results):
    assert results["status"] == 0
    assert results["command"].pop(WAIT) == 2
    # The network is copied to the device before.
    where = {how.rpartition(" in ")[2] for how in results["command"]}
    assert where == {"detector/scorer.py"}
