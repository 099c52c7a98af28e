"""Scoring on a CPU next to ONNX Runtime, which runs the same network exported by ASDF.

Both get a recording of 64,600 samples in memory and the same number of threads. ASDF uses the
`Scorer` of lists, Detector and service. Weights are random, which does not affect the time. Seconds
are CPU time of all threads together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

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

ORT = "ONNX Runtime, as many threads"
FP32 = "the same in fp32"
CPU = torch.device("cpu")
_BATCH = 14


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds for one recording of 4 s."""
    base = "wav2vec2_base + AASIST"
    large = "wav2vec2_xlsr_300m + AASIST"
    # As in runs, lists and the Detector; ONNX Runtime keeps its memory too.
    keep_freed_memory()
    yield from _beside_onnx("small XLS-R-like + AASIST", _behind(SMALL_XLSR.to_text()), 15)
    yield from _beside_onnx("AASIST on waveforms", _raw_aasist(), 15)
    if quick:
        return
    yield from _beside_onnx(base, _behind("wav2vec2_base"), 7)
    yield from _beside_onnx(large, _behind("wav2vec2_xlsr_300m"), 3)
    yield from _in_bf16(base, _behind("wav2vec2_base"), 7)


def _beside_onnx(name: str, settings: Sections, rounds: int) -> Iterator[Row]:
    what = f"{name}, one recording of 4 s, cpu"
    if not has("onnx", "onnxruntime"):
        yield unmeasured(what, "s", ORT, "needs the packages onnx and onnxruntime", 1.0)
        return
    from asdf.interchange.graphs import onnx_graph, runner

    network = make_network(settings).eval()
    waveforms_1T, _ = make_batch(1, SAMPLES)
    with torch.inference_mode():
        plain_12 = network(waveforms_1T)[1]
    session = runner(onnx_graph(network, SAMPLES))
    scorer = _make_scorer(network, settings, "fp32")
    score = partial(_score, scorer, waveforms_1T)
    difference = float((score() - plain_12[:, 1]).abs().max())
    ways: dict[str, Callable[[], object]] = {"asdf": score, "onnx": lambda: session(waveforms_1T)}
    times = in_turns(ways, rounds, warm_up=2, clock=time.process_time)
    threads = torch.get_num_threads()
    note = f"threads: {threads}; ASDF's scores differ from the plain network's by {difference:.1e}"
    yield compared(what, "s", times["asdf"], ORT, times["onnx"], target=1.0, note=note)


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
