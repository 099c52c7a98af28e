"""What tests of extras share, among themselves and with those of the core."""

import multiprocessing
import time
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from tests.unit.conftest import (  # noqa: F401 (fixtures)
    hub,
    hub_cache,
    hub_variables,
    network_file,
    recorded,
    recordings,
    reference,
    single_thread,
    small,
    tiny,
    waveforms,
)


@pytest.fixture
def killed_workers() -> Iterator[None]:
    """Kill the processes of a pool as soon as they start, as the system does without memory."""
    over = Event()

    def kill() -> None:
        while not over.is_set():
            for process in multiprocessing.active_children():
                process.kill()
            time.sleep(0.01)

    killer = Thread(target=kill)
    killer.start()
    yield
    over.set()
    killer.join()
