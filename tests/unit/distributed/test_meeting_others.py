"""The start of a run for which a process is missing."""

import hashlib
import threading
import time

import pytest
from torch.distributed import HashStore

from asdf.distributed.rendezvous import meet
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
        "rank 0 waited 2 s for the other processes of this run: rank 2 of 3 did not arrive."
    )
    assert caught.value.reported_by_main and not errors[0].reported_by_main


def test_the_name_of_a_start_is_made_of_the_processes_and_no_earlier_one_counts():
    store = HashStore()
    # What an earlier start left behind: ids of processes that are gone, and its offer.
    store.set("asdf/id/1", "gone")
    store.set("asdf/offer", "old first gone")
    store.set("asdf/known/old", "1")
    names = {}

    def meet_as(rank: int) -> None:
        names[rank] = meet(store, rank, 2, PATIENCE_S)

    threads = [threading.Thread(target=meet_as, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [store.get(f"asdf/id/{rank}").decode() for rank in (0, 1)]
    expected = hashlib.sha256("".join(ids).encode()).hexdigest()[:12]
    assert names == {0: expected, 1: expected} and "gone" not in ids
