"""The number of recordings of a batch that a process reads concurrently.

Invariant: an item is the same however many are read concurrently: threads only fetch and decode;
steps with a state of their own (a user's augmentation, vocoders) run in the process itself, in the
order of the batch.

A local file is available at once, so threads only cost; the first byte from a store takes tens of
milliseconds, during which others can be fetched.
"""

from __future__ import annotations

from typing import Literal

from asdf.data.threads import Threads
from asdf.remote import is_remote
from asdf.runs.systems import call_in_forked_processes
from asdf.trials.trial_list import TrialList

REMOTE_THREADS = 16
_SAMPLED = 64

_pools: dict[int, Threads] = {}
# Threads do not survive a fork.
call_in_forked_processes(_pools.clear)


def reading_threads(setting: int | Literal["auto"], utterances: TrialList) -> int:
    """Return the number of threads that read a batch: as set, or 16 for stores, else 1.

    For a long list, a sample is examined.
    """
    if setting != "auto":
        return setting
    step = max(1, len(utterances) // _SAMPLED)
    are_remote = (is_remote(utterances.path(index)) for index in range(0, len(utterances), step))
    if any(are_remote):
        return REMOTE_THREADS
    return 1


def reading_pool(count: int) -> Threads:
    """Return the reading threads of this process, which are started once."""
    if count not in _pools:
        _pools[count] = Threads(count)
    return _pools[count]
