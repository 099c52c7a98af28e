"""How often the host waits for the device while it scores, and what memory a batch takes."""

import json
import re

import pytest

from tests.gpu.conftest import run_module

WAIT = "cudaEventSynchronize in distributed/gpus.py"
XLS_R = ["asdf.networks.SSL_AASIST", "wav2vec2_xlsr_300m"]
RAW = ["asdf.networks.AASIST", "tiny"]


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
    assert where == {"scoring/scorer.py"}


@pytest.mark.parametrize(
    ("capability", "precision", "products"), [(90, "tf32", "tf32"), (75, "fp32", "ieee")]
)
def test_scores_are_in_tf32_by_default_where_there_is_one_and_of_one_thread(
    on_null_gpu, corpus, capability, precision, products
):
    """torch caches the kernels that cuDNN has chosen for a shape per thread."""
    results = on_null_gpu("score_by_default", str(corpus), capability=capability)
    assert results["list"] == results["detector"] == [precision, products]
    assert results["after"] == results["before"]
    assert results["threads"] == []


@pytest.mark.parametrize(("gigabytes", "recordings"), [(16, 28), (85, 90)])
def test_a_batch_takes_no_more_than_a_quarter_of_the_memory(on_null_gpu, gigabytes, recordings):
    """The allocator's, without cuDNN's workspaces; a GPU of 16 GB gets the batch of a CPU."""
    cases = [[*XLS_R, "fp32", 14, 64600], [*XLS_R, "bf16", 14, 64600], [*RAW, "fp32", 14, 64600]]
    results = on_null_gpu("measure_scoring", json.dumps(cases), gigabytes=gigabytes)
    assert [result["recordings"] for result in results] == [recordings] * 3
    for result in results:
        share = result["memory"] / 4 if gigabytes > 16 else 6e9
        assert result["batch"] <= share
        assert result["weights"] + result["batch"] < result["memory"]


def test_a_batch_that_does_not_fit_names_the_setting(null_gpu, warm):
    cases = json.dumps([[*RAW, "fp32", 14, 64600]])
    outcome = run_module(warm(), null_gpu(gigabytes=4), "measure_scoring", cases)
    assert outcome.status != 0
    said = (
        r"cuda:0 has not enough memory to score 28 recordings of 64,5\d\d samples at once: CUDA out"
    )
    assert re.search(said, outcome.output)
    assert "Set network.eval_minibatch_size_factor below 2 (now 'auto')" in outcome.output


def test_bf16_is_refused_where_it_is_emulated(null_gpu, warm):
    cases = json.dumps([[*RAW, "bf16", 2, 64600]])
    outcome = run_module(warm(), null_gpu(capability=75), "measure_scoring", cases)
    assert outcome.status != 0
    assert "cuda:0 has compute capability 7.5, bf16 needs 8.0" in outcome.output
