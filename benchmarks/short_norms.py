"""EERs of the quickstart trained in bf16 with norms in float32 and in bf16, on a CPU.

    python -m benchmarks.short_norms SEED [SEED ...]

For each seed the quickstart is trained three times: in fp32, in bf16, and in bf16 with
`computing.norms = 'bf16'`; each network is scored in fp32. A CPU's autocast leaves norms in the
format of their input, so here they are computed as a GPU's does: in float32, also their results.
Needs a CPU that computes in bf16. Prints a line for each run: EERs of demo-dev and demo-eval.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from asdf.metrics.detection import eer
from benchmarks.harness import ROOT

WAYS = {
    "fp32": ("computing.precision=fp32",),
    "bf16": ("computing.precision=bf16",),
    "bf16, norms bf16": ("computing.precision=bf16", "computing.norms=bf16"),
}
RECIPE = ROOT / "recipes/wav2vec_aasist/run.py"


def compute_norms_as_a_gpu() -> None:
    """Let layer norms and group norms under autocast take and return float32."""
    for name in ("layer_norm", "group_norm"):
        setattr(F, name, _in_float32(getattr(F, name)))


def _in_float32(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def compute(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        if not torch.is_autocast_enabled("cpu"):
            return norm(x, *arguments, **options)
        with torch.autocast("cpu", enabled=False):
            return norm(x.float(), *arguments, **options)

    return compute


def train(way: str, seed: int, folder: Path) -> dict[str, float]:
    """Train and score the quickstart in a process of its own; return EERs in percent, by set."""
    words = [
        "quickstart",
        f"paths.output_folder={folder}",
        f"paths.system_folder={way.replace(', ', '-').replace(' ', '-')}-{seed}",
        f"recipe.seed={seed}",
        *WAYS[way],
    ]
    command = [sys.executable, "-m", "benchmarks.short_norms", "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{way}, seed {seed}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    system = folder / words[2].partition("=")[2]
    return {name: _read_eer(system, name) for name in ("demo-dev", "demo-eval")}


def _read_eer(system: Path, name: str) -> float:
    """Return the EER of the last epoch's scores of a set, in percent."""
    paths = sorted(
        system.glob(f"scores/epoch.*/{name}.txt"), key=lambda path: int(path.parts[-2][6:])
    )
    scores: dict[str, list[float]] = {"0": [], "1": []}
    for line in paths[-1].read_text(encoding="utf-8").splitlines():
        _, label, score = line.split()
        scores[label].append(float(score))
    return 100 * eer(scores["1"], scores["0"])[0]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["run"]:
        compute_norms_as_a_gpu()
        sys.argv = [str(RECIPE), *arguments[1:]]
        runpy.run_path(str(RECIPE), run_name="__main__")
        return 0
    with tempfile.TemporaryDirectory(prefix="asdf-norms-") as folder:
        for seed in arguments:
            for way in WAYS:
                eers = train(way, int(seed), Path(folder))
                print(f"seed {seed}, {way}: {eers}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
