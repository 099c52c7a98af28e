"""What a process says that ends because its own process group does not close."""

import logging
import threading

import pytest
from torch.distributed import HashStore

from asdf.distributed import failures
from asdf.errors import AsdfError
from tests.conftest import PATIENCE_S


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [AsdfError("no more disk"), ValueError("a defect")])
def test_a_failure_is_logged_where_leaving_hangs(error, monkeypatch, caplog):
    exited, statuses = threading.Event(), []

    def leave(status):
        statuses.append(status)
        exited.set()
        raise SystemExit  # the thread ends, as the process would

    monkeypatch.setattr(failures, "_LOOK_S", 0.01)
    monkeypatch.setattr(failures, "_GRACE_S", 0.01)
    monkeypatch.setattr(failures, "_close", lambda abort: exited.wait(PATIENCE_S))
    monkeypatch.setattr(failures.os, "_exit", leave)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(type(error)),
        failures.failing_together(HashStore(), 1, "nccl"),
    ):
        raise error
    assert statuses == [1]
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("rank 1: error: ") and message.endswith(str(error))
    assert ("Traceback" in message) is isinstance(error, ValueError)
