"""How many recordings of a batch a process reads at once.

Invariant: an item is the same however many are read at once: threads fetch and decode, and all that
has a state of its own (augmentation of a user's, vocoders) is done by the process itself, in the
order of the batch.

A file of a local disk is there at once, and threads only cost; the first byte of a store takes tens
of milliseconds, in which others can be on their way.
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
# A fork has no threads.
call_in_forked_processes(_pools.clear)


def reading_threads(setting: int | Literal["auto"], utterances: TrialList) -> int:
    """Return the threads that read a batch: as set, or 16 where recordings lie in a store, else 1.

    Of a long list a sample is looked at.
    """
    if setting != "auto":
        return setting
    step = max(1, len(utterances) // _SAMPLED)
    are_remote = (is_remote(utterances.path(index)) for index in range(0, len(utterances), step))
    return REMOTE_THREADS if any(are_remote) else 1


def reading_pool(count: int) -> Threads:
    """Return the threads of this process that read, which are started once."""
    if count not in _pools:
        _pools[count] = Threads(count)
    return _pools[count]
