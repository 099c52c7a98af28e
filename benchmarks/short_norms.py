"""EERs of networks trained in bf16 with norms in float32 and in bf16, on a CPU.

    python -m benchmarks.short_norms --seeds 0-9 --keep FOLDER
    python -m benchmarks.short_norms --seeds 0-4 --keep FOLDER --config mini-wav2vec \\
        paths.database_folder=/data/mini network.max_epochs=10

For each seed a config of the recipe, the quickstart if none is named, is trained in each way: in
fp32, in bf16, and in bf16 with `computing.norms = 'bf16'`; words with an equals sign are settings
of all of them. Each network is scored in fp32. A CPU's autocast leaves norms in the format of their
input, so here they are computed as a GPU's does: in float32, also their results. Needs a CPU that
computes in bf16.

Prints EERs of the last epoch on each set in percent: a line for each run, and a table of the means
and of the differences between both ways in bf16, seed by seed. What FOLDER holds already is not
trained again; its networks can be scored in other precisions (`python -m benchmarks precision`).
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
_SAVED = "eers.json"

Eers = dict[str, float]


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


def train(config: str, way: str, seed: int, folder: Path, words: Sequence[str] = ()) -> Eers:
    """Train and score a config in a separate process, or read an earlier result.

    Args:
        folder: Folder for the system folders of each way and seed.
        words: Settings of all ways.

    Returns:
        EERs of the last epoch in percent, by evaluation set.
    """
    system = folder / f"{config}-{way.replace(', ', '-').replace(' ', '-')}-{seed}"
    saved = system / _SAVED
    if not saved.exists():
        settings = [
            f"paths.output_folder={folder}",
            f"paths.system_folder={system.name}",
            f"recipe.seed={seed}",
            "recipe.selected_epochs=('last',)",
            *words,
            *WAYS[way],
        ]
        command = [sys.executable, "-m", "benchmarks.short_norms", "run", config, *settings]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            said = done.stderr[-2000:] or done.stdout[-2000:]
            raise RuntimeError(f"{system.name}: {said}")
        saved.write_text(json.dumps(_read_eers(system)) + "\n", encoding="utf-8")
    eers: Eers = json.loads(saved.read_text(encoding="utf-8"))
    return eers


def _read_eers(system: Path) -> Eers:
    """Return the EERs of the last epoch's scores in percent, by set."""
    epochs = sorted(system.glob("scores/epoch.*"), key=lambda path: int(path.name[6:]))
    eers = {}
    for path in sorted(epochs[-1].glob("*.txt")):
        scores: dict[str, list[float]] = {"0": [], "1": []}
        for line in path.read_text(encoding="utf-8").splitlines():
            _, label, score = line.split()
            scores[label].append(float(score))
        eers[path.stem] = 100 * eer(scores["1"], scores["0"])[0]
    return eers


def table(eers: dict[str, list[Eers]]) -> str:
    """Return means and deviations over seeds in Markdown; the EERs of all ways have one order."""
    lines = ["| set | way | mean | standard deviation | lowest | highest |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for name in next(iter(eers.values()))[0]:
        by_way = {way: np.array([seed[name] for seed in seeds]) for way, seeds in eers.items()}
        if "bf16" in by_way and "bf16, norms bf16" in by_way:
            by_way["difference of norms in bf16"] = by_way["bf16, norms bf16"] - by_way["bf16"]
        for way, values in by_way.items():
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            numbers = (values.mean(), spread, values.min(), values.max())
            lines.append(f"| {name} | {way} | " + " | ".join(f"{x:.2f}" for x in numbers) + " |")
    return "\n".join(lines)


def _seeds(word: str) -> Iterable[int]:
    first, _, last = word.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["run"]:
        compute_norms_as_a_gpu()
        sys.argv = [str(RECIPE), *arguments[1:]]
        runpy.run_path(str(RECIPE), run_name="__main__")
        return 0
    parser = argparse.ArgumentParser("python -m benchmarks.short_norms", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=_seeds, default="0-9", metavar="FIRST-LAST")
    parser.add_argument("--config", default="quickstart")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the networks here")
    parser.add_argument("settings", nargs="*", metavar="SECTION.NAME=VALUE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="asdf-norms-") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        eers: dict[str, list[Eers]] = {way: [] for way in options.ways}
        for seed in options.seeds:
            for way in options.ways:
                eers[way].append(train(options.config, way, seed, folder, options.settings))
                print(f"seed {seed}, {way}: {eers[way][-1]}", flush=True)
    print(table(eers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
