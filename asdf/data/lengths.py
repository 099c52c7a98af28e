"""Stage 0: how long the utterances are, after speech activity detection, in samples at 16 kHz.

Invariant: a measurement is kept under a name that holds the digest of all it depends on (the list, the sizes of a
sample of its recordings, the speech activity detector), so that one made for another list, other recordings or other
settings cannot be used by mistake. Where the recordings lie does not matter: a node's local disk changes its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from asdf.audio import audio_length, fallbacks, read_audio
from asdf.audio.archives import file_size
from asdf.audio.speech_activity import apply as apply_speech_activity
from asdf.audio.speech_activity import identity
from asdf.data.decoders import tell_fallbacks
from asdf.data.lists import UtteranceList
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.settings.sections import SpeechActivity

_THREADS = 8
_SHOWN = 10
_SIZES = 64
_AT_ONCE = 10_000


def lengths_file(folder: Path, utterances: UtteranceList, sad: SpeechActivity) -> Path:
    """Where the measured lengths of `utterances` are kept."""
    sample = range(0, len(utterances), max(1, len(utterances) // _SIZES))
    sizes = [_size(utterances.path(index)) for index in sample]
    digest = hashlib.sha256(f"{utterances.digest()} {identity(sad)} {sizes}".encode()).hexdigest()[:12]
    return folder / f"{utterances.name}.sad-{sad.mode}.{digest}.tsv"


def measure_lengths(
    utterances: UtteranceList, sad: SpeechActivity, folder: Path, world: World, stop: StopRequest | None = None
) -> np.ndarray:
    """Lengths of all utterances, int64, in list order, on every rank; measured once and kept in `folder`.

    Raises:
        AsdfError: recordings that cannot be read, all of them in one message.
        Stopped: a stop was asked for; nothing has been kept.
    """
    stop = stop or StopRequest()
    path = world.agree(lengths_file(folder, utterances, sad))
    if world.agree(path.exists()):
        return _read(path, utterances)
    own = range(world.rank, len(utterances), world.size)
    lengths, broken = [], []
    fallbacks.take()
    with ThreadPoolExecutor(_THREADS) as pool:
        # A part at a time: a pool notes all that it is to do, in more than a kilobyte for each call.
        parts = (own[place : place + _AT_ONCE] for place in range(0, len(own), _AT_ONCE))
        results = (one for part in parts for one in pool.map(lambda index: _measure(utterances.path(index), sad), part))
        what = f"measuring {utterances.name}"
        for result in track(results, len(own), what, speaks=world.is_main, unit="utterances"):
            if isinstance(result, AsdfError):
                broken.append(str(result))
            lengths.append(0 if isinstance(result, AsdfError) else result)
            if stop:
                pool.shutdown(cancel_futures=True)
                break
    world.stop_together(stop, f"while measuring {utterances.name}")
    gathered = world.gather((lengths, broken))
    world.run_on_main(lambda: _write(path, utterances, gathered or []))
    tell_fallbacks(f"measuring {utterances.name}", fallbacks.take(), utterances, len(utterances), world)
    return _read(path, utterances)


def _size(path: Path) -> int:
    size = file_size(path)
    return -1 if size is None else size


def _measure(path: Path, sad: SpeechActivity) -> int | AsdfError:
    try:
        if sad.mode == "off":
            return audio_length(path)
        return len(apply_speech_activity(read_audio(path), sad))
    except AsdfError as error:
        return error


def _write(path: Path, utterances: UtteranceList, parts: list[tuple[list[int], list[str]]]) -> None:
    broken = [message for _, messages in parts for message in messages]
    if broken:
        more = f"\n  ... and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
        raise AsdfError(
            f"{len(broken)} of the {len(utterances)} recordings of {utterances.name} cannot be used:\n  "
            + "\n  ".join(broken[:_SHOWN])
            + more
            + f"\nMend them, or take them out of the list of {utterances.name}; nothing has been written."
        )
    with atomic_write(path) as file:
        for index, utterance in enumerate(utterances.ids):
            lengths, _ = parts[index % len(parts)]
            file.write(f"{utterance}\t{lengths[index // len(parts)]}\n")
    LOG.info("measured %s: %d utterances", utterances.name, len(utterances))


def _read(path: Path, utterances: UtteranceList) -> np.ndarray:
    try:
        lengths = np.fromiter(_lengths(path, utterances.ids), np.int64, len(utterances))
    except ValueError:
        raise AsdfError(
            f"{path} does not hold the utterances of {utterances.name}. Delete it; stage 0 makes it anew."
        ) from None
    return lengths


def _lengths(path: Path, ids: Sequence[str]) -> Iterator[int]:
    """The lengths in the file `path`, one for each of `ids`; ValueError where the file is of others."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for utterance, line in zip(ids, file, strict=True):
            name, _, samples = line.rpartition("\t")
            if name != utterance:
                raise ValueError(name)
            yield int(samples)
