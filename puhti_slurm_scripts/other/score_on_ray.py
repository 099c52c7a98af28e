"""Score the recordings below a folder into parquet: python score_on_ray.py NETWORK FOLDER OUT."""

import sys

import numpy as np
import ray

import asdf


class Score:
    """A detector, which is opened once on each actor."""

    def __init__(self, network):
        self.detector = asdf.Detector(network)

    def __call__(self, batch):
        scores = np.full(len(batch["path"]), np.nan)
        errors = [""] * len(scores)
        for scored in self.detector.score_many(batch["bytes"], whole=True):
            if scored.score is not None:
                scores[scored.index] = scored.score
            errors[scored.index] = scored.error
        return {"path": batch["path"], "score": scores, "error": np.array(errors, np.str_)}


network, folder, out = sys.argv[1:]
recordings = ray.data.read_binary_files(folder, include_paths=True)
# The number of actors; with num_gpus=1 each takes a GPU. Reading needs a CPU, too.
actors = ray.data.ActorPoolStrategy(size=1)
scored = recordings.map_batches(Score, fn_constructor_args=[network], batch_size=48, compute=actors)
scored.write_parquet(out)
