"""Scoring on a CPU next to ONNX Runtime and OpenVINO, which run the same network exported by ASDF.

All get waveforms in memory, compute in float32 (OpenVINO's default is bfloat16 where the processor
has it) and have the same number of threads. ASDF uses the `Scorer` of lists, Detector and service.
The graphs for one recording of 64,600 samples have this length as a constant; for the list, any
length, each recording alone. OpenVINO converts the network itself for one length and takes the ONNX
graph for any, which is faster than the other way round. Before the turns, every way has scored
every length. Weights are random, which does not affect the time. Seconds are CPU time of all
threads together.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.distributed.arithmetic import multiplies_bfloat16
from asdf.distributed.devices import keep_freed_memory
from asdf.scoring.computing import ScoringPrecision
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Sections
from benchmarks.harness import has, in_turns
from benchmarks.nets import SAMPLES, SMALL_XLSR, make_batch, make_network, make_settings
from benchmarks.rows import Row, compared, unmeasured

FP32 = "the same in fp32"
CPU = torch.device("cpu")
_BATCH = 14
_SHORTEST = 400

Score = Callable[[], np.ndarray]


def rows(quick: bool, lengths: Sequence[int]) -> Iterator[Row]:
    """Yield seconds for one recording of 4 s, and for a list of recordings of `lengths`."""
    base = "wav2vec2_base + AASIST"
    large = "wav2vec2_xlsr_300m + AASIST"
    # As in runs, lists and the Detector; ONNX Runtime keeps its memory too.
    keep_freed_memory()
    yield from _beside_peers(
        "small XLS-R-like + AASIST", _behind(SMALL_XLSR.to_text()), 15, lengths
    )
    yield from _beside_peers("AASIST on waveforms", _raw_aasist(), 15, lengths)
    if quick:
        return
    yield from _beside_peers(base, _behind("wav2vec2_base"), 7, lengths)
    yield from _beside_peers(large, _behind("wav2vec2_xlsr_300m"), 3, lengths)
    yield from _in_bf16(base, _behind("wav2vec2_base"), 7)


def _beside_peers(
    name: str, settings: Sections, rounds: int, lengths: Sequence[int]
) -> Iterator[Row]:
    settings.network.min_evaluation_utterance_length_in_samples = _SHORTEST
    before = torch.get_num_threads()
    one = [_noise(SAMPLES)]
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            what = f"{name}, one recording of 4 s, cpu, threads: {threads}"
            yield from _in_turns(what, settings, one, rounds)
        torch.set_num_threads(1)
        mixed = [_noise(samples) for samples in lengths]
        what = f"{name}, {len(mixed)} recordings of as many lengths, cpu, threads: 1"
        yield from _in_turns(what, settings, mixed, max(rounds // 3, 2))
    finally:
        torch.set_num_threads(before)


def _in_turns(
    what: str, settings: Sections, waveforms: Sequence[np.ndarray], rounds: int
) -> Iterator[Row]:
    """Yield a row for each peer, all measured in the same turns."""
    network = make_network(settings).eval()
    scorer = _make_scorer(make_network(settings).eval(), settings, "fp32")
    # Every way computes the same samples: those that the network uses.
    cut = [each[: scorer.scored_samples(len(each))] for each in waveforms]
    ways: dict[str, Score] = {"ASDF": lambda: scorer.score_waveforms(cut).scores}
    for peer, (make, packages) in PEERS.items():
        if not has(*packages):
            reason = f"needs the packages {' and '.join(packages)}"
            yield unmeasured(what, "s", f"{peer}, as many threads", reason, 1.0)
            continue
        run = make(network, len(cut[0]) if len(cut) == 1 else None)
        ways[f"{peer} {version(packages[-1])}"] = partial(_score_each, run, cut)
    with torch.inference_mode():
        plain = np.concatenate([network(torch.from_numpy(each)[None])[1][:, 1] for each in cut])
    differences = {way: float(abs(score() - plain).max()) for way, score in ways.items()}
    times = in_turns(ways, rounds, warm_up=2, clock=time.process_time)
    for way in list(ways)[1:]:
        note = (
            f"scores differ from the plain network's by {differences['ASDF']:.1e}, "
            f"{way}'s by {differences[way]:.1e}"
        )
        against = f"{way}, as many threads"
        yield compared(what, "s", times["ASDF"], against, times[way], target=1.0, note=note)


def _onnx_runtime(network: nn.Module, samples: int | None) -> Callable[[np.ndarray], Any]:
    from asdf.interchange.graphs import onnx_graph, runner

    run = runner(onnx_graph(network, samples))
    return lambda waveforms_1T: run(torch.from_numpy(waveforms_1T))[1]


def _openvino(network: nn.Module, samples: int | None) -> Callable[[np.ndarray], Any]:
    import openvino

    from asdf.interchange.graphs import onnx_graph

    core = openvino.Core()
    if samples is None:
        model = core.read_model(onnx_graph(network))
    else:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            example_1T, _ = make_batch(1, samples)
            model = openvino.convert_model(network, example_input=example_1T, input=[1, samples])
    wanted = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(model, "CPU", wanted).create_infer_request()
    return lambda waveforms_1T: request.infer([waveforms_1T], share_inputs=True)[1]


PEERS = {
    "ONNX Runtime": (_onnx_runtime, ("onnx", "onnxruntime")),
    "OpenVINO": (_openvino, ("onnx", "openvino")),
}


def _score_each(run: Callable[[np.ndarray], Any], waveforms: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(run(each[None]))[:, 1] for each in waveforms])


def _noise(samples: int) -> np.ndarray:
    return make_batch(1, samples)[0][0].numpy()


def _score(scorer: Scorer, waveforms_BT: Tensor) -> Tensor:
    return scorer.compute(waveforms_BT).scores_B


def _in_bf16(name: str, settings: Sections, rounds: int) -> Iterator[Row]:
    what = f"{name}, one recording of 4 s, cpu, bf16"
    if not multiplies_bfloat16():
        yield unmeasured(what, "s", FP32, "this CPU has neither AVX512_BF16 nor AMX")
        return
    waveforms_1T, _ = make_batch(1, SAMPLES)
    ways: dict[str, Callable[[], Tensor]] = {}
    for precision in ("bf16", "fp32"):
        scorer = _make_scorer(make_network(settings).eval(), settings, precision)
        ways[precision] = partial(_score, scorer, waveforms_1T)
    difference = float((ways["bf16"]() - ways["fp32"]()).abs().max())
    times = in_turns(ways, rounds, warm_up=2, clock=time.process_time)
    note = f"the scores differ by {difference:.1e}"
    yield compared(what, "s", times["bf16"], FP32, times["fp32"], note=note)


def _make_scorer(network: nn.Module, settings: Sections, precision: str) -> Scorer:
    chosen = ScoringPrecision(precision, CPU)
    return Scorer(network, settings.network, chosen, owns_network=True)


def _behind(architecture: str) -> Sections:
    return make_settings(architecture, minibatch=_BATCH)


def _raw_aasist() -> Sections:
    settings = make_settings("tiny", minibatch=_BATCH)
    settings.network.network_class = "asdf.networks.AASIST"
    return settings
