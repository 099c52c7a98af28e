"""How soon a recipe answers, and how soon it trains.

`--explain` has no peer but the user's patience. The start is the time from the command to the first
optimiser step of a small network without pretrained weights, on the demo corpus. Torch's own
imports in it are shown beside: torch, torchaudio, and torch._dynamo, which the first optimiser of
any program imports whether it compiles or not.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from asdf.demo import DEMO_SETS, make_demo_corpus
from benchmarks.harness import ROOT, in_turns
from benchmarks.rows import Row, limited

IMPORTS = "import torch, torchaudio, torch._dynamo"
RECIPE = ROOT / "recipes" / "wav2vec_aasist"
FIRST_STEP = "step 1:"


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


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


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
