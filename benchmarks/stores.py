"""Clips out of a tar on a server with 20 ms to the first byte: a batch at once against one by one.

Both are `TrainingClips` in this process, in turns, over real connections to a server process on
this machine, which sleeps before each answer as an object store near by does. The clips are the
same, in another order of waiting alone.
"""

from __future__ import annotations

import multiprocessing
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from asdf.data.datasets import TrainingClips
from asdf.data.reading_at_once import REMOTE_THREADS
from asdf.remote import as_path
from asdf.settings.sections import RawBoost, SpeechActivity
from benchmarks.corpus import TemporaryCorpus, temporary_corpus
from benchmarks.harness import in_turns
from benchmarks.rows import Row, compared
from tests.stores import range_server

FIRST_BYTE_S = 0.02
SAMPLES = 64600
MINIBATCH = 24
TARGET = 5.0


def rows(quick: bool) -> Iterator[Row]:
    """Yield the row of clips per second."""
    with temporary_corpus(48 if quick else 240) as corpus, _served(corpus) as address:
        utterances = replace(corpus.utterances, folder=as_path(address))
        one_by_one = TrainingClips(
            utterances, corpus.lengths, SAMPLES, RawBoost(), SpeechActivity(), seed=0
        )
        at_once = replace(one_by_one, threads=REMOTE_THREADS)
        epochs = count(1)
        readers = {
            "asdf": partial(_read_batch, at_once, epochs),
            "peer": partial(_read_batch, one_by_one, epochs),
        }
        seconds = in_turns(readers, 2 if quick else 9)
    clips = {name: [MINIBATCH / each for each in times] for name, times in seconds.items()}
    yield compared(
        f"clips of a tar, first byte after {FIRST_BYTE_S * 1000:g} ms",
        "clips/s",
        clips["asdf"],
        "one by one",
        clips["peer"],
        more=True,
        target=TARGET,
        note=f"one process, batches of {MINIBATCH}, {REMOTE_THREADS} threads",
    )


def _read_batch(clips: TrainingClips, epochs: Iterator[int]) -> None:
    epoch = next(epochs)
    first = epoch * MINIBATCH
    batch = clips.__getitems__(
        [(epoch, (first + index) % len(clips)) for index in range(MINIBATCH)]
    )
    for clip in batch:
        if clip.error is not None:
            raise clip.error


@contextmanager
def _served(corpus: TemporaryCorpus) -> Iterator[str]:
    """Serve the recordings as one tar from a separate process; yield its address."""
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder:
        tar = Path(folder) / "corpus.tar"
        with tarfile.open(tar, "w") as archive:
            for index in range(len(corpus.utterances)):
                path = corpus.utterances.path(index)
                archive.add(path, path.name)
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(tar, theirs))
        process.start()
        try:
            yield f"{ours.recv()}/corpus.tar"
        finally:
            ours.send(None)
            process.join()


def _serve(tar: Path, connection: Any) -> None:
    with range_server() as server:
        server.objects["/corpus.tar"] = tar.read_bytes()
        server.delay_s = FIRST_BYTE_S
        connection.send(server.address(""))
        connection.recv()
