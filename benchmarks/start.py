"""How soon a recipe answers, how soon it trains, and what the first score of a recording costs.

`--explain` has no peer but the user's patience. The start is the time from the command to the first
optimiser step of a small network without pretrained weights, on the demo corpus. Torch's own
imports in it are shown beside: torch, torchaudio, and torch._dynamo, which the first optimiser of
any program imports whether it compiles or not.

The first score is that of `score call.flac`, four seconds of noise, by the shipped detector: CPU
seconds and memory of the whole process. Its peer is a script that runs the same graph with ONNX
Runtime and prints the score, without a check for speech, a calibration, or spoofed parts.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from asdf.demo import DEMO_SETS, make_demo_corpus
from asdf.facts import SAMPLE_RATE
from asdf.shipped import GRAPH
from benchmarks.harness import ROOT, has, in_turns
from benchmarks.rows import Row, compared, limited, unmeasured

IMPORTS = "import torch, torchaudio, torch._dynamo"
RECIPE = ROOT / "recipes" / "wav2vec_aasist"
FIRST_STEP = "step 1:"
PEER = """
import sys
import onnxruntime
import soundfile

samples, _ = soundfile.read(sys.argv[1], dtype="float32")
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[2], options)
print(session.run(["logits"], {"waveforms": samples[None]})[0][0, 1])
"""
MEMORY = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3); "
MEMORY += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)"


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds of whole processes."""
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as name:
        folder = Path(name)
        make_demo_corpus(
            folder / "corpus",
            sets=tuple(replace(demo_set, speakers=2, pairs=4) for demo_set in DEMO_SETS),
        )
        command = [sys.executable, str(RECIPE / "run.py"), "quickstart"]
        times = in_turns(
            {
                "explain": lambda: _run([*command, "--explain"]),
                "torch": lambda: _run([sys.executable, "-c", f"{IMPORTS}, os; os._exit(0)"]),
                "step": lambda: _to_first_step(command, folder),
            },
            2 if quick else 7,
        )
    torch_s = statistics.median(times["torch"])
    share = torch_s / statistics.median(times["step"])
    yield limited("run.py --explain", "s", times["explain"], 0.5)
    note = f"{torch_s:.2f} s of it, {100 * share:.0f} %, is what `{IMPORTS}` takes by itself"
    yield limited("command to first step", "s", times["step"], 3.0, note=note)

    yield from _first_score(quick)


def _first_score(quick: bool) -> Iterator[Row]:
    """Yield CPU seconds and megabytes of the first score of a recording."""
    what = "first score of a recording"
    if not has("onnxruntime"):
        yield unmeasured(what, "CPU s", "ONNX Runtime", "onnxruntime is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as name:
        recording = str(Path(name) / "call.flac")
        noise = 0.1 * np.random.default_rng(0).standard_normal(4 * SAMPLE_RATE)
        soundfile.write(recording, noise, SAMPLE_RATE)
        score = [sys.executable, "-m", "asdf", "score", recording]
        commands = {
            "graph": score,
            "packed": [*score, "--engine", "packed"],
            "peer": [sys.executable, "-c", PEER, recording, str(GRAPH)],
        }
        runs = {key: partial(_run, command) for key, command in commands.items()}
        times = in_turns(runs, 2 if quick else 7, clock=_cpu_s)
        memory = {}
        for key, command in commands.items():
            asked = [sys.executable, "-c", MEMORY, *command]
            done = subprocess.run(asked, check=True, capture_output=True, text=True)
            memory[key] = [float(done.stdout)]
    packed_s = statistics.median(times["packed"])
    note = f"{packed_s:.2f} CPU s and {memory['packed'][0]:.0f} MB by torch (--engine packed)"
    yield limited(what, "CPU s", times["graph"], 0.9, note=note)
    yield compared(what, "CPU s", times["graph"], "ONNX Runtime alone", times["peer"])
    yield limited(f"{what}, memory", "MB", memory["graph"], 200)
    yield compared(f"{what}, memory", "MB", memory["graph"], "ONNX Runtime alone", memory["peer"])


def _cpu_s() -> float:
    """Return the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _to_first_step(command: list[str], folder: Path) -> None:
    """Start the recipe from scratch, wait for the line of its first step, and end it."""
    shutil.rmtree(folder / "output", ignore_errors=True)
    overrides = [
        f"paths.database_folder={folder / 'corpus'}",
        f"paths.output_folder={folder / 'output'}",
        "recipe.evaluation_sets=('demo-dev',)",
        "network.print_interval=1",
        "computing.use_gpu=False",
    ]
    process = subprocess.Popen(
        [*command, *overrides], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if FIRST_STEP in line:
            break
    else:
        raise RuntimeError(f"the recipe ended before its first step:\n{''.join(lines[-20:])}")
    # Inside the measurement, but immediate: the next start must not share the machine with this
    # one.
    process.kill()
    process.wait()
    process.stdout.close()
