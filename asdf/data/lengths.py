"""Stage 0: how long the utterances are, after speech activity detection, in samples at 16 kHz; are they whole?

Invariant: a measurement is saved under a name that holds the digest of all it depends on (the list, the sizes of a
sample of its recordings, the speech activity detector), so that one made for another list, other recordings or other
settings cannot be used by mistake; with a checksum, so that a damaged one is made anew. Where the recordings lie does
not matter: a node's local disk changes its name.

A header says how long a recording is, not that it is whole. So each training recording is decoded to its end once; what
is saved then says so, with the size and the time of change of the file that was decoded.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from asdf.archives import file_size, file_state
from asdf.audio import fallbacks
from asdf.audio.speech import measure_speech, needs_whole_recording
from asdf.audio.speech_activity import identity
from asdf.data.decoders import log_fallbacks
from asdf.data.saved_lengths import NOT_DECODED, Row, read_table, write_table
from asdf.data.threads import threads
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.settings.sections import SpeechActivity
from asdf.text import lines_and_more
from asdf.trials.trial_list import TrialList

_THREADS = 8
_SHOWN = 10
_SIZES = 64
_AT_ONCE = 16


def lengths_file(folder: Path, utterances: TrialList, sad: SpeechActivity) -> Path:
    """Where the measured lengths of `utterances` are saved."""
    sample = range(0, len(utterances), max(1, len(utterances) // _SIZES))
    sizes = [_size(utterances.path(index)) for index in sample]
    depends_on = f"{utterances.digest()} {identity(sad)} {sizes}"
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    return folder / f"{utterances.name}.sad-{sad.mode}.{digest}.tsv"


def measure_lengths(
    utterances: TrialList,
    sad: SpeechActivity,
    folder: Path,
    world: World,
    stop: StopRequest | None = None,
    check: bool = False,
) -> np.ndarray:
    """Lengths of all utterances, int64, in list order, on every rank; measured once and saved in `folder`.

    Args:
        check: decode each recording to its end, unless that was done with a file of its size and time of change.

    Raises:
        AsdfError: recordings that cannot be read, all of them in one message.
        Stopped: a stop was asked for; nothing has been saved.
    """
    stop = StopRequest() if stop is None else stop  # one that was not asked for is false
    path = world.run_on_main(lambda: lengths_file(folder, utterances, sad))
    saved = world.run_on_main(lambda: read_table(path, utterances))
    if saved is not None and not check:
        return saved[:, 0].copy()
    own = range(world.rank, len(utterances), world.size)
    numbers = array(
        "q"
    )  # three for each recording: millions of rows as Python objects take gigabytes
    broken: list[str] = []

    def measure(part: Sequence[int]) -> list[Row | AsdfError]:
        return [
            _measure(utterances.path(index), sad, check, None if saved is None else saved[index])
            for index in part
        ]

    what = f"{'checking' if check else 'measuring'} {utterances.name}"
    fallbacks.take()
    with threads(_THREADS) as pool:
        parts = (own[place : place + _AT_ONCE] for place in range(0, len(own), _AT_ONCE))
        results = chain.from_iterable(pool.map(measure, parts, stop))
        for result in track(results, len(own), what, shown=world.is_main, unit="utterances"):
            if isinstance(result, AsdfError):
                broken.append(str(result))
            numbers.extend((0, 0, 0) if isinstance(result, AsdfError) else result)
    world.stop_together(stop, f"while {what}")
    gathered = world.gather((numbers, broken))
    table = world.run_on_main(lambda: _save(path, utterances, saved, gathered or []))
    log_fallbacks(what, fallbacks.take(), utterances, len(utterances), world)
    return table[:, 0].copy()


def _size(path: Path) -> int:
    size = file_size(path)
    return -1 if size is None else size


def _measure(
    path: Path, sad: SpeechActivity, check: bool, saved: np.ndarray | None
) -> Row | AsdfError:
    try:
        if not check and not needs_whole_recording(sad):
            return measure_speech(path, sad).speech, NOT_DECODED, NOT_DECODED
        size, changed = file_state(path) or (NOT_DECODED, NOT_DECODED)
        if saved is not None and size >= 0 and saved[1:].tolist() == [size, changed]:
            return int(saved[0]), size, changed
        return measure_speech(path, sad, decode=True).speech, size, changed
    except AsdfError as error:
        return error


def _save(
    path: Path,
    utterances: TrialList,
    saved: np.ndarray | None,
    parts: Sequence[tuple[array[int], list[str]]],
) -> np.ndarray:
    """Put together what each of the ranks measured, (N, 3), and write it unless it is what was `saved`."""
    broken = [message for _, messages in parts for message in messages]
    if broken:
        raise AsdfError(
            f"{len(broken)} of the {len(utterances)} recordings of {utterances.name} cannot be used:"
            + lines_and_more(broken, _SHOWN)
            + f"\nMend them, or take them out of the list of {utterances.name}; nothing has been written."
        )
    table = np.empty((len(utterances), 3), np.int64)
    for rank, (numbers, _) in enumerate(parts):
        table[rank :: len(parts)] = np.array(numbers, np.int64).reshape(-1, 3)
    if saved is None or not np.array_equal(table, saved):
        write_table(path, utterances.ids, table)
        decoded = int((table[:, 1] != NOT_DECODED).sum())
        LOG.info(
            "measured %s: %d utterances%s",
            utterances.name,
            len(utterances),
            f", {decoded} of them decoded to their ends" if decoded else "",
        )
    return table
