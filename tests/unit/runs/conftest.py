"""What the tests of the room share."""

import pytest

from asdf.runs.log import LOG


@pytest.fixture(autouse=True)
def unchanged_log():
    """Undo what a test does to the log, which the whole process shares."""
    handlers = LOG.handlers[:]
    propagates = LOG.propagate
    yield
    LOG.handlers[:] = handlers
    LOG.propagate = propagates
