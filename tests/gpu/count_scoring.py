"""Scores a corpus and prints the waits of it: `python -m tests.gpu.count_scoring CORPUS`.

The last line printed is JSON: the waits of one list, of two batches of the Detector, of three of
the pass that computes features, and of `python -m asdf score` with two recordings.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from asdf import __main__ as commands
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.data.datasets import TrainingClips
from asdf.data.feature_cache import FeaturePass
from asdf.data.loaders import BatchLoader
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import open_world
from asdf.networks import build_network
from asdf.scoring.computing import choose_scoring_precision
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList
from tests.gpu.count_training import settings_of
from tests.gpu.null_gpu.watch import Watch

SAMPLES = 16000


def scored_list(folder: Path, count: int) -> tuple[list[Path], TrialList, np.ndarray, Sections]:
    """Recordings of a folder, as a list with lengths, and settings that score it in pairs."""
    files = sorted(folder.rglob("*.flac"))[:count]
    labels = np.arange(len(files), dtype=np.int8) % 2
    utterances = TrialList([str(path) for path in files], labels, name="counted", folder=Path("/"))
    settings = settings_of({"network.network_class": "asdf.networks.SSL_MHFA"})
    settings.network.minibatch_size, settings.network.eval_minibatch_size_factor = 2, 1
    settings.network.train_clip_size = SAMPLES
    settings.computing.network_dataloader_workers = 0
    return files, utterances, np.full(len(files), SAMPLES), settings


def main() -> None:
    files, utterances, lengths, settings = scored_list(Path(sys.argv[1]), 8)
    stop, results = StopRequest(), {}
    with open_world(settings.computing) as world:
        network = build_network(settings).to(world.device)
        with Watch() as seen:
            score_list(
                build_list_scorer(network, settings, world),
                utterances,
                lengths,
                settings,
                world,
                stop,
            )
        results["list"] = dict(seen.waits)
        precision = choose_scoring_precision("fp32", world.device)
        scorer = Scorer(network, settings.network, precision)
        batch = [np.zeros(SAMPLES, np.float32)] * 2
        scorer.score_waveforms(batch)
        with Watch() as seen:
            scorer.score_waveforms(batch)
            scorer.score_waveforms(batch)
        results["detector"] = dict(seen.waits)
        clips = TrainingClips(
            utterances, lengths, SAMPLES, settings.rawboost, settings.sad, 0, "start"
        )
        work = FeaturePass(
            network.front_end.forward,
            BatchLoader(clips, 0, world),
            utterances,
            settings.network,
            world,
            stop,
        )
        dtype = np.dtype(np.float16)
        with torch.inference_mode():
            next(work._blocks([0], dtype))
            with Watch() as seen:
                list(work._blocks([0, 1, 2], dtype))
        results["features"] = dict(seen.waits)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.pt"
        write_network_file(path, NetworkFile.from_network(network, settings))
        words = ["score", str(path), *map(str, files[:2]), "--device", "cuda"]
        with Watch() as seen:
            results["status"] = commands.main(words)
        results["command"] = dict(seen.waits)
    print(json.dumps(results), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
