"""From shards to clips on one core, and how quickly a list is packed into them.

ASDF reads a clip of 64,600 samples of each recording in a global shuffle, out of tars that `pack`
wrote; webdataset and lhotse read the same recordings, as FLAC, out of such tars and out of Shar,
shuffled in a buffer, and cut them likewise. Packing stands next to the time of decoding the same
recordings, which it does to know that they are whole. Processor time, which other programs on the
machine do not change; from a warm disk cache.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import torch

from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.packing import PackOptions, pack_list
from asdf.settings.sections import RawBoost, SpeechActivity
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList
from benchmarks.corpus import TemporaryCorpus, temporary_corpus
from benchmarks.harness import has, in_turns
from benchmarks.loader import MINIBATCH, SAMPLES, cut_or_tile
from benchmarks.rows import Row, compared

_SHARD_BYTES = 8_000_000
_BUFFER = 200
_PEERS = ("webdataset", "lhotse")


def rows(quick: bool) -> Iterator[Row]:
    """Yield recordings per second of CPU time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rounds = 2 if quick else 11
    try:
        with temporary_corpus(48 if quick else 480) as corpus, TemporaryDirectory() as folder:
            yield from _packing(corpus, Path(folder), rounds)
            yield from _reading(corpus, Path(folder), rounds)
    finally:
        torch.set_num_threads(threads)


def _rates(functions: dict[str, Callable[[], Any]], number: int, rounds: int) -> dict[str, list]:
    times = in_turns(functions, rounds, clock=time.process_time)
    return {name: [number / taken for taken in seconds] for name, seconds in times.items()}


def _packing(corpus: TemporaryCorpus, folder: Path, rounds: int) -> Iterator[Row]:
    packed = folder / "packed"

    def packing() -> None:
        rmtree(packed, ignore_errors=True)
        pack_list(corpus.utterances, packed, PackOptions("all", _SHARD_BYTES))

    def decoding() -> None:
        for path in corpus.paths:
            soundfile.read(str(path), dtype="float32")

    rates = _rates({"asdf": packing, "decoding": decoding}, len(corpus.paths), rounds)
    note = "it decodes them to their ends, writes, indexes and reads back"
    against = "decoding alone"
    what = "recordings packed"
    yield compared(
        what, "rec/CPU s", rates["asdf"], against, rates["decoding"], more=True, note=note
    )


def _reading(corpus: TemporaryCorpus, folder: Path, rounds: int) -> Iterator[Row]:
    what = "clips out of shards"
    missing = [name for name in _PEERS if not has(name)]
    if missing:
        yield Row(what, "clips/CPU s", ", ".join(missing), note="not installed")
        return
    packed = folder / "packed"
    utterances = read_list(packed / "all_list.txt", packed, "packed")
    shar = folder / "shar"
    _write_shar(corpus, shar)
    tars = sorted(map(str, packed.glob("*.tar")))
    functions = {
        "asdf": _asdf_epochs(utterances, corpus),
        "webdataset": lambda: _webdataset_epoch(tars),
        "lhotse Shar": lambda: _shar_epoch(shar),
    }
    rates = _rates(functions, len(utterances), rounds)
    for peer in ("webdataset", "lhotse Shar"):
        yield compared(
            what,
            "clips/CPU s",
            rates["asdf"],
            peer,
            rates[peer],
            more=True,
            target=1.0,
            note="a global shuffle next to one in a buffer",
        )


def _asdf_epochs(utterances: TrialList, corpus: TemporaryCorpus) -> Callable[[], None]:
    stems = {Path(name).stem: index for index, name in enumerate(corpus.utterances.ids)}
    lengths = corpus.lengths[[stems[Path(name).stem] for name in utterances.ids]]
    clips = TrainingClips(utterances, lengths, SAMPLES, RawBoost(), SpeechActivity(), seed=0)
    loader = BatchLoader(clips, 0, World())
    epochs = count(1)

    def epoch() -> None:
        number = next(epochs)
        order = np.random.default_rng(number).permutation(len(lengths)).tolist()
        starts = range(0, len(order), MINIBATCH)
        keys = [[(number, index) for index in order[at : at + MINIBATCH]] for at in starts]
        for _ in loader.batches(keys):
            pass

    return epoch


def _webdataset_epoch(tars: list[str]) -> None:
    import webdataset

    def clip(sample: dict[str, Any]) -> torch.Tensor:
        samples, _ = soundfile.read(io.BytesIO(sample["flac"]), dtype="float32")
        return torch.from_numpy(cut_or_tile(samples, SAMPLES))

    shards = webdataset.WebDataset(tars, shardshuffle=len(tars), seed=0)
    for _ in shards.shuffle(_BUFFER).map(clip).batched(MINIBATCH, collation_fn=torch.stack):
        pass


def _write_shar(corpus: TemporaryCorpus, folder: Path) -> None:
    import lhotse

    folder.mkdir()
    cuts = [lhotse.Recording.from_file(path).to_cut() for path in corpus.paths]
    lhotse.CutSet.from_cuts(cuts).to_shar(folder, fields={"recording": "flac"}, shard_size=100)


def _shar_epoch(folder: Path) -> None:
    import lhotse

    cuts = lhotse.CutSet.from_shar(in_dir=folder, shuffle_shards=True, seed=0)
    batch = []
    for cut in cuts.shuffle(buffer_size=_BUFFER):
        batch.append(torch.from_numpy(cut_or_tile(cut.load_audio()[0], SAMPLES)))
        if len(batch) == MINIBATCH:
            torch.stack(batch)
            batch = []
