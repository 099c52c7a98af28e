"""Costs that grow with what is given: trials, hours of a recording, runs on a page.

CPU seconds and memory of whole processes, so a busy machine changes them little; the limits stand
for a quiet one. A million trials are two text files, a protocol of five columns and scores in
another order, read, matched and evaluated with intervals over trials and speakers. A recording of
hours is scored by the shipped detector, which also searches it for spoofed parts: its memory must
not grow. A page of runs is written without intervals.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from asdf.evaluation import evaluate, read_scores, write_results, write_scores
from asdf.facts import SAMPLE_RATE
from benchmarks.harness import ROOT, has
from benchmarks.rows import Row, limited, unmeasured

# What it prints in the end: the CPU seconds and the MB of a command.
MEASURED = "import json, resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout"
MEASURED += "=-3, stderr=-3); used = resource.getrusage(resource.RUSAGE_CHILDREN); "
MEASURED += "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3]))"
ASDF = [sys.executable, "-m", "asdf"]
APART = 3.29  # standard deviations: an EER near 5 %


def rows(quick: bool) -> Iterator[Row]:
    """Yield CPU seconds, megabytes and their growth."""
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as name:
        folder = Path(name)
        yield from _explained(quick)
        yield from _trials(folder, 10_000 if quick else 1_000_000, 1 if quick else 5)
        yield from _hours(folder, (1, 2, 3) if quick else (10, 60, 180), 1 if quick else 4)
        yield from _page(folder, 10 if quick else 1000)


def measured(*words: object) -> tuple[float, float]:
    """Return the CPU seconds and the peak memory in MB of a command."""
    command = [sys.executable, "-c", MEASURED, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def _explained(quick: bool) -> Iterator[Row]:
    recipe = ROOT / "recipes" / "wav2vec_aasist" / "run.py"
    explain = [sys.executable, recipe, "quickstart", "--explain"]
    measured(*explain)  # bytecode is written once
    seconds = [measured(*explain)[0] for _ in range(2 if quick else 7)]
    yield limited("run.py quickstart --explain", "CPU s", seconds, 0.3)


def _trials(folder: Path, trials: int, rounds: int) -> Iterator[Row]:
    """Yield the cost of an evaluation."""
    scores, protocol = folder / "scores.txt", folder / "protocol.txt"
    write_trials(scores, protocol, trials)
    evaluate = [*ASDF, "evaluate", scores, "--protocol", protocol]
    for what, more in (("evaluate", []), ("evaluate --by attack", ["--by", "attack"])):
        costs = [measured(*evaluate, *more) for _ in range(rounds)]
        note = f"{statistics.median(megabytes for _, megabytes in costs):.0f} MB"
        seconds = [seconds for seconds, _ in costs]
        yield limited(f"{what}, {trials:,} trials", "CPU s", seconds, 6.0, note=note)


def write_trials(scores: Path, protocol: Path, trials: int) -> None:
    """Write lines 'UTT SCORE' in random order, and the five columns of ASVspoof 2019."""
    rng = np.random.default_rng(1)
    labels = rng.random(trials) < 0.1
    values = (rng.standard_normal(trials) + APART * labels).astype(np.float32)
    with protocol.open("w") as file:
        for index, label in enumerate(labels.tolist()):
            ending = "- bonafide" if label else f"A{index % 16:02d} spoof"
            file.write(f"T_{index * 7919 % 2000:04d} E_{index:010d} - {ending}\n")
    with scores.open("w") as file:
        order = rng.permutation(trials).tolist()
        file.writelines(f"E_{index:010d} {values[index]}\n" for index in order)


def _hours(folder: Path, minutes: tuple[int, ...], rounds: int) -> Iterator[Row]:
    """Yield the median memory of scoring recordings, beside that of the shortest."""
    what = "score a recording, memory"
    if not has("onnxruntime"):
        yield unmeasured(what, "MB", "the shortest", "onnxruntime is not installed")
        return
    first = 0.0
    for length in minutes:
        path = folder / f"{length}.flac"
        rng = np.random.default_rng(0)
        with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1) as file:
            for _ in range(length):
                file.write(0.1 * rng.standard_normal(60 * SAMPLE_RATE))
        # The peak of one run may be far above that of the next, whatever the length.
        costs = [measured(*ASDF, "score", path) for _ in range(rounds)]
        seconds, megabytes = map(statistics.median, zip(*costs, strict=True))
        first = first or megabytes
        note = f"{seconds:.0f} CPU s, {seconds / length:.2f} a minute"
        yield limited(f"{what}, {length} min", "MB", [megabytes], round(1.1 * first), note=note)
        path.unlink()


def _page(folder: Path, runs: int) -> Iterator[Row]:
    """Yield the cost of a page of runs that differ in their seed."""
    output = folder / "output"
    write_runs(output, runs)
    page = folder / "page.html"
    seconds, megabytes = measured(*ASDF, "report", output, "-o", page, "--replicates", "0")
    note = f"{megabytes:.0f} MB of memory, a page of {page.stat().st_size / 1e6:.1f} MB"
    yield limited(f"report of {runs:,} runs", "CPU s", [seconds], 0.1 * runs, note=note)


def write_runs(output: Path, runs: int) -> None:
    """Write runs with a set of 100 trials each, of which ten share their settings but the seed."""
    labels = np.arange(100) % 2
    ids = [f"flac/U_{index:03d}.flac" for index in range(labels.size)]
    for seed in range(runs):
        folder = output / f"run{seed:04d}"
        scores = folder / "scores" / "epoch.1" / "eval.txt"
        drawn = np.random.default_rng(seed).normal(size=labels.size)
        write_scores(scores, ids, labels, (drawn + 2 * labels).astype(np.float32))
        write_results(folder / "results", [("epoch.1", "eval", evaluate(read_scores(scores)))])
        (folder / "settings.py").write_text(
            f"# Settings of config net\n\nrecipe.seed = {seed}  # command line, over 0 (default)\n"
            f"network.learning_rate = {1e-3 * (1 + seed // 10)}  # command line\n"
        )
