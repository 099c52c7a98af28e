"""A process that fails while another waits for it in an exchange of NCCL, which never comes."""

from array import array

import pytest


@pytest.mark.slow
def test_a_rank_that_fails_aborts_and_ends_the_one_that_hangs(recipe, null_gpu, tmp_path):
    meeting = tmp_path / "meeting"
    gpus = null_gpu(count=2)
    variables = {**gpus, "TEST_RAISE_ASDF": "1:3", "NULL_GPU_MEETING": str(meeting)}
    outcome = recipe.run("debug", processes=2, **variables)

    assert outcome.status == 1
    cause = outcome.output[outcome.output.rindex("Root Cause") :]
    assert "rank      : 1" in cause
    assert outcome.output.count("[rank 1] error: no more disk") == 1
    assert "rank 0: another process of this run has ended" in outcome.output
    # The launcher's own end of a process that does not heed it.
    assert "SIGKILL" not in outcome.output
    begun, aborted = read_meeting(meeting)
    assert begun[0] > begun[1]  # rank 0 was in an exchange that rank 1 never came to
    assert aborted == [0, 1]


def read_meeting(path) -> tuple[list[int], list[int]]:
    """Collectives begun and aborted, of two ranks."""
    numbers = array("q", path.read_bytes())
    return list(numbers[:2]), list(numbers[16:18])
