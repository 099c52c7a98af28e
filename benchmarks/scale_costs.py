"""Costs of a corpus of CLIPS clips on the host: `python -m benchmarks.scale_costs CLIPS`, as JSON.

Lists are synthetic, with names like those of ASVspoof 5, and their recordings do not exist. Memory
is the growth of the process's resident memory: `held` with the result, `peak` in between.
Operations that need as many files as clips are measured on `FEW` and extrapolated, as is the
bootstrap; `from_few` marks these.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from asdf.corpora.label_lists import read_protocol
from asdf.data.lengths import SavedLengths, measure_lengths
from asdf.data.scoring_plan import ScoringPlan, batch_samples
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World, open_world
from asdf.evaluation import Scores, confidence_intervals, eer, min_dcf, read_scores, write_scores
from asdf.extras.stores import tars
from asdf.extras.stores.index import read_state
from asdf.extras.stores.tars import BLOCK, OpenFile
from asdf.settings.sections import USUAL_AUDIO, Computing, Network, SpeechActivity
from asdf.trials.how_scored import ScoredLength
from asdf.trials.lists import check_files, read_list
from asdf.trials.table import read_trials, write_trials
from asdf.trials.trial_list import TrialList, join
from benchmarks.resident import copied_by_a_fork, peak, settled

T = TypeVar("T")
MINIBATCH = 14
FEW = 20_000
REPLICATES, TIMED = 1000, 10
APART = 3.29  # standard deviations: an EER near 5 %


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes (None: not requested, or unknown), and when and where a run incurs them."""

    what: str
    when: str
    where: str
    seconds: float | None
    held: int | None = None
    peak: int | None = None
    from_few: bool = False


def costs(clips: int, folder: Path) -> Iterator[Cost]:
    """Yield all costs that grow with the clips, except those of several processes."""
    yield from _lists(clips, folder)
    yield from _plans(clips)
    yield from _evaluation(clips, folder)
    yield from _files(clips, folder)


def _lists(clips: int, folder: Path) -> Iterator[Cost]:
    path = folder / "list.txt"
    with path.open("w") as file:
        file.writelines(f"{_name(i)} {_label(i)}\n" for i in range(clips))
    cost, utterances = _measured(
        "read a list", "start", "every rank", partial(read_list, path, folder, "big")
    )
    yield cost
    path.unlink()
    sad = SpeechActivity()
    saved = SavedLengths.of(folder, utterances, sad, USUAL_AUDIO)
    table = np.full((clips, 3), -1, np.int64)
    table[:, 0] = 48000 + np.arange(clips) % 1000
    saved.write(table, utterances)
    read = partial(measure_lengths, utterances, sad, folder, World())
    yield _cost("read the lengths", "start, validation", "every rank", read)
    saved.path.unlink()
    yield _cost("join the training lists", "start", "every rank", partial(join, [utterances]))
    cost, packed = _measured(
        "pack a list for the loader", "validation", "every rank", utterances.packed
    )
    yield cost
    copied = copied_by_a_fork(partial(_look_at_all, packed.ids))
    yield Cost("copies of the list", "validation", "every loader worker", None, held=copied)
    del utterances, read, packed
    path = folder / "protocol.tsv"
    with path.open("w") as file:
        for i in range(clips):
            key = "bonafide" if _label(i) else "spoof"
            file.write(
                f"T_{i % 4000:04d} {_name(i)[7:-5]} F - - - AC{i % 4} A{i % 16:02d} {key} -\n"
            )
    yield _cost(
        "read a protocol of ten columns", "start", "every rank", partial(read_protocol, path)
    )
    path.unlink()


def _plans(clips: int) -> Iterator[Cost]:
    for ranks in (1, 8, 64):
        plan = TrainingPlan(clips, MINIBATCH, world_size=ranks)
        yield _cost(f"training plan, {ranks} ranks", "epoch", "every rank", partial(_walk, plan))
    lengths = np.clip(
        np.random.default_rng(0).lognormal(np.log(48000), 0.45, clips), 8000, 208000
    ).astype(np.int64)
    # The frames of a wav2vec 2.0 front end: one every 320 samples.
    network = Network()
    length = ScoredLength(
        network.min_evaluation_utterance_length_in_samples,
        network.max_evaluation_utterance_length_in_samples,
    )
    scoring = ScoringPlan(length, lambda samples: samples // 320 * 320, batch_samples(network))
    plan_scoring = partial(scoring.batches, lengths)
    yield _cost("scoring plan", "validation", "every rank", plan_scoring)


def _evaluation(clips: int, folder: Path) -> Iterator[Cost]:
    rng = np.random.default_rng(1)
    labels = (rng.random(clips) < 0.1).astype(np.int8)
    scores = (rng.standard_normal(clips) + APART * labels).astype(np.float32).astype(np.float64)
    ids = [_name(i) for i in range(clips)]
    scored = Scores(ids, labels, scores)
    yield _cost("EER", "validation", "main rank", partial(eer, scored.bona_fide, scored.spoof))
    yield _cost("minDCF", "report", "main rank", partial(min_dcf, scored.bona_fide, scored.spoof))
    bootstrap = partial(confidence_intervals, scored, replicates=TIMED)
    yield _of_few(
        f"bootstrap of {REPLICATES:,}", "on request", "one process", bootstrap, REPLICATES / TIMED
    )
    path = folder / "scores.txt"
    write = partial(write_scores, path, ids, labels, scores)
    yield _cost("write a score file", "validation", "main rank", write)
    yield _cost("read a score file", "report", "main rank", partial(read_scores, path))
    path.unlink()
    columns = {
        "speaker": [f"T_{i % 4000:04d}" for i in range(clips)],
        "attack": ["-" if _label(i) else f"A{i % 16:02d}" for i in range(clips)],
    }
    path = folder / "trials.tsv"
    write = partial(write_trials, path, TrialList(ids, labels, columns=columns))
    yield _cost("write a table of trials", "validation", "main rank", write)
    del write, columns, ids, scored, bootstrap
    yield _cost("read a table of trials", "report", "main rank", partial(read_trials, path))
    path.unlink()


def _files(clips: int, folder: Path) -> Iterator[Cost]:
    few = min(FEW, clips)
    names = [_name(i) for i in range(few)]
    (folder / "flac_T").mkdir()
    for name in names:
        (folder / name).touch()
    look = partial(
        check_files, [TrialList(names, np.zeros(few, np.int8), name="few", folder=folder)]
    )
    yield _of_few("look for the files", "start", "main rank", look, clips / few)
    archive = folder / "few.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(folder / "flac_T", "flac_T")
    yield _of_few("index an archive", "once", "one process", partial(_index, archive), clips / few)
    # Headers of zeros in an archive with a hole: the index cannot distinguish them from real ones.
    hole, block = folder / "hole.tar", BLOCK
    with hole.open("wb") as file:
        file.truncate((clips + 1) * 2 * block)
    text = b"".join(_name(i).encode() for i in range(clips))
    places, size = np.arange(1, clips + 1, dtype=np.int64), len(text) // clips
    headers = np.full(clips, zlib.crc32(bytes(block)), np.uint32)
    made = tars.Index(
        ends=places * size,
        names=text,
        offsets=places * 2 * block,
        sizes=np.full(clips, block),
        headers=headers,
    )
    tars.save_index(hole, made, read_state(hole.stat()))
    del made, text, places, headers
    yield _cost("read an archive's index", "start", "every rank", partial(_index, hole))


def gather(clips: int) -> float | None:
    """Return seconds of the main rank for all scores of `clips` trials; None on other ranks."""
    computing = Computing()
    computing.use_gpu, computing.threads = False, 1
    with open_world(computing) as world:
        indices = np.arange(world.rank, clips, world.size)
        world.barrier()
        start = time.perf_counter()
        world.gather((indices, indices.astype(np.float32)))
        seconds = time.perf_counter() - start
    return seconds if world.is_main else None


def _index(path: Path) -> tars.Index:
    return tars.read_index(path, OpenFile(path))


def _walk(plan: TrainingPlan) -> int:
    """Iterate over an epoch; return the number of its steps."""
    return sum(1 for _ in plan.windows(1))


def _look_at_all(names: Sequence[str]) -> None:
    """Look up each name once, in random order."""
    order = np.random.default_rng(0).permutation(len(names))
    for position in range(
        0, len(order), 1 << 16
    ):  # in parts: a list of all indices would take more memory
        for index in order[position : position + (1 << 16)].tolist():
            names[index]


def _name(index: int) -> str:
    return f"flac_T/T_{index:010d}.flac"


def _label(index: int) -> int:
    return int(index % 10 == 0)


def _cost(what: str, when: str, where: str, function: Callable[[], object]) -> Cost:
    """Return the cost of a call."""
    cost, _ = _measured(what, when, where, function)
    return cost


def _measured(what: str, when: str, where: str, function: Callable[[], T]) -> tuple[Cost, T]:
    """Return the cost of a call, and its result. Garbage is collected as in a run."""
    before = settled()
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    most, after = peak(), settled()
    if before is None or most is None or after is None:
        return Cost(what, when, where, seconds), result
    return Cost(what, when, where, seconds, max(0, after - before), max(0, most - before)), result


def _of_few(what: str, when: str, where: str, function: Callable[[], Any], times: float) -> Cost:
    """Return the cost of a call, extrapolated by a factor."""
    seconds = _cost(what, when, where, function).seconds
    return Cost(what, when, where, None if seconds is None else seconds * times, from_few=True)


if __name__ == "__main__":
    if sys.argv[1] == "gather":
        print(json.dumps(gather(int(sys.argv[2]))))
    else:
        with tempfile.TemporaryDirectory(prefix="asdf-scale-") as name:
            print(json.dumps([asdict(cost) for cost in costs(int(sys.argv[1]), Path(name))]))
