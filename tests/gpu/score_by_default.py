"""In which precision, and in how many threads, a GPU scores a list and with the Detector."""

import json
import os
import sys
import tempfile
import threading
from pathlib import Path

from torch.backends import cuda, cudnn

from asdf import Detector
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import open_world
from asdf.networks import build_network
from asdf.scoring.score_list import build_list_scorer, score_list
from tests.gpu.count_scoring import scored_list


def main() -> None:
    files, utterances, lengths, settings = scored_list(Path(sys.argv[1]), 4)
    results: dict[str, list[str]] = {"before": products_now()}
    with open_world(settings.computing) as world:
        network = build_network(settings).to(world.device)
        products, threads = watch(network)
        scorer = build_list_scorer(network, settings, world)
        score_list(scorer, utterances, lengths, settings, world, StopRequest())
        results["list"] = [scorer.how_scored.precision, *sorted(products)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.pt"
        write_network_file(path, NetworkFile.from_network(network, settings))
        detector = Detector(path)
    products, more_threads = watch(detector._scorer._network)
    for _ in detector.score_many(files[:2]):
        pass
    results["detector"] = [detector.precision, *sorted(products)]
    results["after"] = products_now()
    results["threads"] = sorted({*threads, *more_threads} - {threading.get_ident()})
    print(json.dumps(results), flush=True)
    os._exit(0)


def products_now() -> list[str]:
    """The precisions of matrix products and of convolutions."""
    return [cuda.matmul.fp32_precision, cudnn.conv.fp32_precision]


def watch(network) -> tuple[set[str], set[int]]:
    """Sets of the precisions of products, and of the threads, in which `network` is computed."""
    products: set[str] = set()
    threads: set[int] = set()

    def note(*_) -> None:
        products.update(products_now())
        threads.add(threading.get_ident())

    network.register_forward_pre_hook(note)
    return products, threads


if __name__ == "__main__":
    main()
