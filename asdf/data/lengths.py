"""Stage 0: how long utterances are, after speech activity detection, and whether they are whole.

Invariant: a measurement is saved under a name that holds the digest of all it depends on (the list,
the sizes of a sample of its recordings, the speech activity detector), so that one made for another
list, other recordings or other settings cannot be used by mistake; with a checksum, so that a
damaged one is made anew. Where the recordings lie does not matter: a node's local disk changes its
name.

A header says how long a recording is, not that it is whole. So each training recording is decoded
to its end once; what is saved then says so, with the size and the time of change of the file that
was decoded.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from functools import partial
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
_SAMPLED_SIZES = 64
# Recordings that a thread measures before it hands them over: one by one, handing over takes longer
# than reading a header.
_AT_ONCE = 16
_NO_ROW = Row(0, 0, 0)


def lengths_file(folder: Path, utterances: TrialList, sad: SpeechActivity) -> Path:
    """Return where the measured lengths of `utterances` are saved."""
    depends_on = f"{utterances.digest()} {identity(sad)} {sampled_sizes(utterances)}"
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    return folder / f"{utterances.name}.sad-{sad.mode}.{digest}.tsv"


def sampled_sizes(utterances: TrialList) -> list[int]:
    """Return the sizes of the files of some recordings, in bytes; -1 for one that is missing."""
    sizes = (file_size(utterances.path(index)) for index in _sample(utterances))
    return [-1 if size is None else size for size in sizes]


def _sample(utterances: TrialList) -> range:
    return range(0, len(utterances), max(1, len(utterances) // _SAMPLED_SIZES))


def measure_lengths(
    utterances: TrialList,
    sad: SpeechActivity,
    folder: Path,
    world: World,
    stop: StopRequest | None = None,
    check: bool = False,
) -> np.ndarray:
    """Return the lengths of all utterances in samples: int64, in list order, on every rank.

    They are measured once and saved in `folder`.

    Args:
        check: decode each recording to its end, unless that was done with a file of its size and
            time of change.

    Raises:
        AsdfError: recordings that cannot be read, all of them in one message.
        Stopped: a stop was requested; nothing has been saved.
    """
    if stop is None:
        stop = StopRequest()
    path = world.run_on_main(lambda: lengths_file(folder, utterances, sad))
    saved = world.run_on_main(lambda: read_table(path, utterances))
    if saved is not None and not check:
        return _lengths_of(saved)
    local = range(world.rank, len(utterances), world.size)
    # Three for each recording: millions of rows as Python objects take gigabytes.
    numbers = array("q")
    broken: list[str] = []
    what = f"{'checking' if check else 'measuring'} {utterances.name}"
    measure = partial(_measure_part, utterances=utterances, sad=sad, check=check, saved=saved)
    fallbacks.take()
    with threads(_THREADS) as pool:
        parts = (local[start : start + _AT_ONCE] for start in range(0, len(local), _AT_ONCE))
        results = chain.from_iterable(pool.map(measure, parts, stop))
        for result in track(results, len(local), what, shown=world.is_main, unit="utterances"):
            if isinstance(result, AsdfError):
                broken.append(str(result))
                result = _NO_ROW
            numbers.extend(result)
    world.stop_together(stop, f"while {what}")
    gathered = world.gather((numbers, broken))
    table = world.run_on_main(lambda: _save(path, utterances, saved, gathered or []))
    log_fallbacks(what, fallbacks.take(), utterances, len(utterances), world)
    return _lengths_of(table)


def _lengths_of(table: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = table[:, 0].copy()
    return lengths


def _measure_part(
    part: Sequence[int],
    utterances: TrialList,
    sad: SpeechActivity,
    check: bool,
    saved: np.ndarray | None,
) -> list[Row | AsdfError]:
    """Measure some utterances; what cannot be read comes back as its error."""
    rows: list[Row | AsdfError] = []
    for index in part:
        known = None if saved is None else saved[index]
        try:
            rows.append(_measure(utterances.path(index), sad, check, known))
        except AsdfError as error:
            rows.append(error)
    return rows


def _measure(path: Path, sad: SpeechActivity, check: bool, saved: np.ndarray | None) -> Row:
    if not check and not needs_whole_recording(sad):
        return Row(measure_speech(path, sad).speech, NOT_DECODED, NOT_DECODED)
    size, changed = file_state(path) or (NOT_DECODED, NOT_DECODED)
    if saved is not None and size >= 0 and saved[1:].tolist() == [size, changed]:
        return Row(int(saved[0]), size, changed)
    return Row(measure_speech(path, sad, decode=True).speech, size, changed)


def _save(
    path: Path,
    utterances: TrialList,
    saved: np.ndarray | None,
    parts: Sequence[tuple[array[int], list[str]]],
) -> np.ndarray:
    """Put together what each rank measured, (N, 3), and write it unless it is what was `saved`."""
    broken = [message for _, messages in parts for message in messages]
    if broken:
        raise AsdfError(
            f"{len(broken)} of the {len(utterances)} recordings of {utterances.name} cannot be "
            f"used:{lines_and_more(broken, _SHOWN)}\nMend them, or take them out of the list of "
            f"{utterances.name}; nothing has been written."
        )
    table = np.empty((len(utterances), 3), np.int64)
    for rank, (numbers, _) in enumerate(parts):
        table[rank :: len(parts)] = np.array(numbers, np.int64).reshape(-1, 3)
    if saved is not None and np.array_equal(table, saved):
        return table
    write_table(path, utterances.ids, table)
    decoded = int((table[:, 1] != NOT_DECODED).sum())
    checked = f", {decoded} of them decoded to their ends" if decoded else ""
    LOG.info("measured %s: %d utterances%s", utterances.name, len(utterances), checked)
    return table
