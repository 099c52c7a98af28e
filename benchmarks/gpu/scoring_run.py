"""Scores a synthetic list once, also with torchrun.

    python -m benchmarks.gpu.scoring_run SCORES ARCHITECTURE RECORDINGS NAMES PRECISION

The network has random weights, and the list noise, the same each time. Each recording is in the
list under NAMES names, because a GPU scores hundreds of recordings before its workers have started.
It writes the score file SCORES; the last printed line is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World, open_world
from asdf.evaluation import write_scores
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import Sections
from benchmarks.corpus import RATE, TemporaryCorpus, temporary_corpus
from benchmarks.nets import make_network, make_settings

GIB = 2**30


def score_twice(
    corpus: TemporaryCorpus, settings: Sections, world: World, path: Path
) -> list[float]:
    """Score the list twice; return the seconds of both. In the first pass every length is new."""
    network = make_network(settings, world.device)
    seconds = []
    for _ in range(2):
        world.barrier()
        began = time.perf_counter()
        scores = score_list(
            build_list_scorer(network, settings, world),
            corpus.utterances,
            corpus.lengths,
            settings,
            world,
            StopRequest(),
        )
        seconds.append(time.perf_counter() - began)
    if scores is not None:
        write_scores(path, corpus.utterances.ids, corpus.utterances.labels, scores)
    return seconds


def main(path: Path, architecture: str, recordings: int, names: int, precision: str) -> None:
    settings = make_settings(architecture, 14)
    settings.computing.scoring_precision = precision  # type: ignore[assignment]
    settings.computing.network_dataloader_workers = 4
    with (
        open_world(settings.computing) as world,
        temporary_corpus(recordings, names=names) as corpus,
    ):
        first, second = score_twice(corpus, settings, world, path)
        result = {
            "first_seconds": first,
            "seconds": second,
            "trials": len(corpus.utterances),
            "lengths": len(set(corpus.lengths.tolist())),
            "speech_s": float(corpus.lengths.sum() / RATE),
            "reserved_gib": torch.cuda.max_memory_reserved() / GIB,
        }
        if world.is_main:
            print(json.dumps(result), flush=True)
        world.barrier()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
