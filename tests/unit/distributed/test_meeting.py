"""The start of a run for which a process is missing."""

import threading
import time

import pytest
from torch.distributed import HashStore

from asdf.distributed.meeting import meet
from asdf.errors import AsdfError
from tests.conftest import PATIENCE_S


def test_the_main_rank_says_for_all_who_is_missing():
    """Its wait ends after that of the other, which hears of it."""
    store = HashStore()
    errors = []

    def meet_as_main():
        with pytest.raises(AsdfError) as caught:
            meet(store, 0, 3, 2.0)
        errors.append(caught.value)

    main = threading.Thread(target=meet_as_main)
    main.start()
    until = time.monotonic() + PATIENCE_S
    while not store.check(["asdf/id/0"]) and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(AsdfError) as caught:
        meet(store, 1, 3, 0.1)
    main.join()
    assert str(caught.value) == str(errors[0])
    assert str(caught.value).startswith(
        "rank 0 waited 2 s for the other processes of this run: rank 2 of 3 did not come."
    )
    assert caught.value.reported_by_main and not errors[0].reported_by_main
