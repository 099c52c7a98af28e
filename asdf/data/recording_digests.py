"""Digests of the recordings of a list, to detect changes since an earlier start.

Invariant: a digest depends on the content of recordings, not on their location or the time of
copying. Reading all of them would take longer than many a training, so only the size and some
kilobytes from the middle of each are read; in a long list, only of equally spaced recordings; for a
parquet file, only the size. Other differences are not detected.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial

from asdf.data.threads import threads
from asdf.errors import AsdfError
from asdf.places import find_member, open_file
from asdf.trials.trial_list import TrialList

MAX_RECORDINGS = 20_000
_BYTES = 4096
_THREADS = 8
# Recordings per task of a thread.
_AT_ONCE = 16
_CHARACTERS = 16


def digest_recordings(utterances: TrialList, max_recordings: int = MAX_RECORDINGS) -> str:
    """Return a digest of the examined recordings of a list."""
    step = -(-len(utterances) // max_recordings) or 1
    rows = range(0, len(utterances), step)
    parts = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
    total = hashlib.sha256()
    with threads(_THREADS) as pool:
        for digest in pool.map(partial(_digest_part, utterances), parts):
            total.update(digest)
    return total.hexdigest()[:_CHARACTERS]


def digest_list(utterances: TrialList) -> str:
    """Return a digest of a list's content: utterances in order, and labels."""
    content = utterances.digest().encode() + utterances.labels.tobytes()
    return hashlib.sha256(content).hexdigest()[:_CHARACTERS]


def _digest_part(utterances: TrialList, rows: Sequence[int]) -> bytes:
    digest = hashlib.sha256()
    for row in rows:
        path = utterances.path(row)
        # A recording that cannot be read is reported where it is used.
        try:
            member = None if path.exists() else find_member(path)
            if member is not None and member.reads_others:
                # Its size must suffice.
                digest.update(b"%d" % member.state.size)
                continue
            with open_file(path) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _BYTES) // 2)
                digest.update(b"%d " % size + file.read(_BYTES))
        except (OSError, AsdfError):
            digest.update(b"-")
    return digest.digest()
