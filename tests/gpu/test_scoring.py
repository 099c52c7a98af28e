"""How often the host waits for the device while it scores."""

WAIT = "cudaEventSynchronize in distributed/reading.py"


def test_the_host_waits_once_a_list_and_once_a_batch_of_the_detector_and_of_features(
    on_null_gpu, corpus
):
    waits = on_null_gpu("count_scoring", str(corpus))
    # Two batches of the Detector, three of the pass that computes features.
    assert waits == {"list": {WAIT: 1}, "detector": {WAIT: 2}, "features": {WAIT: 3}}
