"""Scoring a list in batches of equal lengths, one by one, or all cut to 64,600; and peers.

The set is a slice of one as large as ASVspoof 2019 LA's evaluation (71,237 trials): durations are
log-normal, median 3 s, from 0.5 to 13 s; at evenly spaced quantiles a length is taken, with 12
trials each (a list of that size has about 400 at a length near the median). All three ways read the
same FLACs and run the same small network, with layer norms as XLS-R's. One at a time is exact and
so is ASDF; the fixed length is what most scripts do, and gives other scores. On a GPU ASDF reads
with 8 loader processes, as it does in a run; the other two read in the main process. On a CPU they
are torch's plain networks, and ASDF's has packed weights.

On a CPU a batch saves calls, not products. So the limit there is the time of the products and
convolutions alone: their floating-point operations, counted at each length without those that
packed weights spare, at the speed of one product of 2,048 rows with a matrix of 1,024 times 1,024
by oneDNN, measured in the same turns. Seconds on a CPU are the processor's, of all threads
together. Then, recordings in memory are scored beside ONNX Runtime and OpenVINO, which run the same
networks exported by ASDF.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from asdf.data.scoring_plan import batch_samples
from asdf.distributed.gpus import gpu_memory
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.extras.cpu.packed_weights import LinearWeight
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList
from benchmarks import cpu_scoring
from benchmarks.corpus import RATE, speechlike
from benchmarks.harness import in_turns
from benchmarks.loader import cut_or_tile
from benchmarks.nets import SAMPLES, SMALL_XLSR, make_network, make_settings
from benchmarks.rows import Row, compared, unmeasured

FIXED, SINGLE = "all cut or tiled to 64,600", "one utterance at a time"
LIMIT = "its products alone"
FASTER_THAN_FIXED, FASTER_THAN_SINGLE = 1.5, 3.0
# Reading, decoding, norms, activations and attention take the rest.
NEAR_LIMIT = 0.5
_ROWS = 2048
_WIDTH = 1024
PRODUCT = 2 * _ROWS * _WIDTH * _WIDTH


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds for the whole list."""
    lengths, trials, rounds = (3, 3, 2) if quick else (10, 12, 3)
    yield from _on(
        torch.device("cpu"),
        SMALL_XLSR.to_text(),
        "small XLS-R-like + AASIST",
        lengths,
        trials,
        rounds,
    )
    what = "wav2vec2_xlsr_300m + AASIST"
    if torch.cuda.is_available():
        yield from _on(torch.device("cuda", 0), "wav2vec2_xlsr_300m", what, lengths, trials, rounds)
    else:
        yield unmeasured(f"{what}, cuda", "s", FIXED, "no CUDA device", FASTER_THAN_FIXED)
        yield unmeasured(f"{what}, cuda", "s", SINGLE, "no CUDA device", FASTER_THAN_SINGLE)
    yield from cpu_scoring.rows(quick, quantile_lengths(2 * lengths))


def quantile_lengths(count: int) -> list[int]:
    """Return numbers of samples at `count` evenly spaced quantiles of the durations."""
    normal = NormalDist(np.log(3.0), 0.45)
    seconds = [float(np.exp(normal.inv_cdf((i + 0.5) / count))) for i in range(count)]
    return [int(RATE * min(max(duration, 0.5), 13.0)) for duration in seconds]


def _on(
    device: torch.device, architecture: str, name: str, lengths: int, trials: int, rounds: int
) -> Iterator[Row]:
    settings = make_settings(architecture, minibatch=14)
    settings.computing.network_dataloader_workers = 0 if device.type == "cpu" else 8
    settings.network.min_evaluation_utterance_length_in_samples = 400
    network = make_network(settings, device).eval()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder:
        samples = np.repeat(quantile_lengths(lengths), trials)
        rng.shuffle(samples)
        ids = [f"u{index:05d}.flac" for index in range(len(samples))]
        for utterance, length in zip(ids, samples.tolist(), strict=True):
            soundfile.write(
                Path(folder) / utterance, speechlike(length, rng), RATE, subtype="PCM_16"
            )
        utterances = TrialList(
            ids, np.zeros(len(ids), np.int8), name="benchmark", folder=Path(folder)
        )
        ways: dict[str, Callable[[], Any]] = {}
        ways.update(scoring_ways(network, utterances, samples, settings, device))
        scores = {way: score() for way, score in ways.items()}  # which warms up, too
        on_cpu = device.type == "cpu"
        if on_cpu:
            ways["product"] = one_product()
        clock = time.process_time if on_cpu else time.perf_counter
        times = in_turns(ways, rounds, warm_up=0, clock=clock)
    difference = float(np.abs(scores["asdf"] - scores["single"]).max())
    what = f"{name}, {len(ids)} trials, {samples.sum() / RATE:.0f} s, {device.type}"
    note = f"the fixed length has {len(ids) * SAMPLES / samples.sum():.2f} times as many samples"
    yield compared(
        what, "s", times["asdf"], FIXED, times["fixed"], target=FASTER_THAN_FIXED, note=note
    )
    share = busiest(network, device)
    note = f"the scores differ by {difference:.1e} at most; of a plain batch's time: {share}"
    target = None if on_cpu else FASTER_THAN_SINGLE
    yield compared(what, "s", times["asdf"], SINGLE, times["single"], target=target, note=note)
    if not on_cpu:
        return
    operations = count_operations(network, samples)
    least = [operations / PRODUCT * seconds for seconds in times["product"]]
    most = np.median(times["single"]) / np.median(least)
    note = (
        f"{operations / 1e9:.0f} G operations; no batches can be more than {most:.2f} times as "
        "fast as one utterance at a time"
    )
    yield compared(what, "s", times["asdf"], LIMIT, least, target=NEAR_LIMIT, note=note)


def count_operations(network: nn.Module, samples: np.ndarray) -> int:
    """Count the operations of products and convolutions, for recordings of these lengths.

    Operations that packed weights save are excluded: positions are computed by Fourier transforms,
    and an edge once for both directions.
    """
    total = 0
    for length, count in zip(*np.unique(samples, return_counts=True), strict=True):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, int(length)))
        needed = counter.get_total_flops()
        for module, operations in counter.get_flop_counts().items():
            if module.endswith(".pos_conv_embed"):
                needed -= sum(operations.values())
            elif module.endswith(".att_proj"):
                needed -= sum(operations.values()) // 2
        total += int(count) * needed
    return total


def one_product() -> Callable[[], Tensor]:
    """Return a oneDNN product of `PRODUCT` operations."""
    weight = LinearWeight(torch.randn(_WIDTH, _WIDTH), None)
    return partial(weight.apply, torch.randn(_ROWS, _WIDTH))


def busiest(network: nn.Module, device: torch.device, shown: int = 4) -> str:
    """Return the operators that take most of a batch, with their shares; batching saves none."""
    batch = torch.zeros(14, 3 * RATE, device=device)
    kinds = [ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU]
    with torch.inference_mode(), profile(activities=kinds) as record:
        network(batch)
    cuda = device.type == "cuda"
    averages = record.key_averages()
    times = {
        average.key: float(average.self_device_time_total if cuda else average.self_cpu_time_total)
        for average in averages
    }
    whole = sum(times.values())
    most = sorted(times, key=lambda name: -times[name])[:shown]
    return ", ".join(
        f"{name.removeprefix('aten::')} {100 * times[name] / whole:.0f} %" for name in most
    )


def scoring_ways(
    network: nn.Module,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    device: torch.device,
) -> dict[str, Callable[[], np.ndarray]]:
    """Return the three ways, each giving the scores in the order of the list."""
    paths = [str(utterances.path(index)) for index in range(len(utterances))]
    budget = batch_samples(settings.network, gpu_memory(device))
    together = max(1, budget // settings.network.train_clip_size)

    def asdf() -> np.ndarray:
        scores = score_list(
            build_list_scorer(network, settings, World(device=device)),
            utterances,
            lengths,
            settings,
            World(device=device),
            StopRequest(),
        )
        assert scores is not None
        return scores

    @torch.inference_mode()
    def single() -> np.ndarray:
        return np.array([_scores(network, [_read(path)], device)[0] for path in paths])

    @torch.inference_mode()
    def fixed() -> np.ndarray:
        batches = [
            paths[position : position + together] for position in range(0, len(paths), together)
        ]
        return np.concatenate(
            [
                _scores(network, [cut_or_tile(_read(path), SAMPLES) for path in batch], device)
                for batch in batches
            ]
        )

    return {"asdf": asdf, "single": single, "fixed": fixed}


def _scores(network: nn.Module, waveforms: list[np.ndarray], device: torch.device) -> np.ndarray:
    batch = torch.from_numpy(np.stack(waveforms)).to(device)
    return np.asarray(network(batch)[1][:, 1].cpu().numpy())


def _read(path: str) -> np.ndarray:
    return np.asarray(soundfile.read(path, dtype="float32")[0])
