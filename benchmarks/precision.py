"""What TF32 and bf16 do to scores and error rates, computed on a CPU without a GPU.

    python -m benchmarks precision --list dev=dev_list.txt --network mine=net.pt
    python -m benchmarks precision --list NAME=FILE ... --network NAME=FILE ... --write

Each network scores each list in fp32, in TF32 that is emulated (benchmarks/tf32.py: once with
factors rounded to the nearest number, once toward zero), and in the bf16 of a CPU's autocast. A
list has the form `relative/path.flac 1`, its paths are relative to its folder. Networks named
`NAME, seed N` are trainings of one kind, and summed up in a table of their own. `--write` puts the
rows into precision.json, in which rows of the same network and list are replaced, and the tables
into RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from asdf.audio.speech import read_speech
from asdf.distributed.arithmetic import NO_BFLOAT16, computes_bfloat16
from asdf.errors import UsageError
from asdf.evaluation import eer, min_dcf
from asdf.runs.files import write_text
from asdf.scoring.detector import open_network
from asdf.scoring.opened_network import Options
from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList
from benchmarks.harness import log_line
from benchmarks.tf32 import tf32_products

HERE = Path(__file__).parent
SAVED = HERE / "precision.json"
FP32, TF32, TF32_CUT, BF16 = "fp32", "TF32, emulated", "TF32 toward zero, emulated", "bf16"
PRECISIONS = (FP32, TF32, TF32_CUT, BF16)
_SEED = re.compile(r", seed \d+$")
_BEGIN = "<!-- measured by benchmarks/precision.py -->"
_END = "<!-- end of what benchmarks/precision.py measured -->"
_ABOUT = """
**Emulated on a CPU, not measured on a GPU.** The factors of all matrix products and convolutions,
those of attention included, lost the 13 bits that TF32 lacks before they were multiplied in
float32: rounded to the nearest number, and cut toward zero, since kernels may do either. bf16 is
the autocast of the CPU. `difference` is the largest one of a trial's score from that in fp32,
`spread` the standard deviation of the scores in fp32; `rank changes` are pairs of a bona fide and a
spoofed trial, of 1,000, whose order is another one than in fp32: what error rates follow from.
`python -m benchmarks precision --write` writes this.
"""
_ABOUT_SEEDS = """
The same of several networks of one kind, trained from other seeds: `moved` is how many EERs are not
those in fp32, `largest move` by how much in percent points, `difference` and `rank changes` are the
largest of a network. Scoring has no fp16. XLS-R's networks are not measured: their weights were not
at hand.
"""


@dataclass(frozen=True)
class Effect:
    """The effect of a precision on the scores of a list.

    Attributes:
        eer: Equal error rate in percent.
        difference: Largest difference of a score from its value in fp32.
        spread: Standard deviation of the scores in fp32.
        rank_changes: Number of pairs of both classes, per 1,000, whose order differs from fp32.
    """

    network: str
    trials: str
    number: int
    precision: str
    eer: float
    min_dcf: float
    difference: float
    spread: float
    rank_changes: float


def main(words: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser("python -m benchmarks precision", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for option in ("--network", "--list"):
        parser.add_argument(option, action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--write", action="store_true", help="write precision.json and RESULTS.md")
    options = parser.parse_args(words)
    try:
        networks = _named_files(options.network)
        lists = _named_files(options.list)
    except UsageError as error:
        parser.error(str(error))
    effects = []
    for list_name, list_path in lists.items():
        trials = read_list(list_path, list_path.parent, list_name)
        for name, path in networks.items():
            effects += list(measure(name, path, trials))
    print(table(effects))
    if options.write:
        _save(effects)
        write_results(HERE / "RESULTS.md")
    return 0


def measure(name: str, path: Path, trials: TrialList) -> Iterator[Effect]:
    """Score a list with a network in each precision.

    Raises:
        AsdfError: as `open_network`, or a recording cannot be read.
    """
    is_bona_fide = np.asarray(trials.labels) == 1
    in_fp32 = np.zeros(0)
    for precision in PRECISIONS:
        if precision == BF16 and not computes_bfloat16():
            log_line(f"{name}, {trials.name}: {NO_BFLOAT16}")
            continue
        log_line(f"{name}, {trials.name}: {precision} ...")
        scores = score_in(precision, path, trials)
        if precision == FP32:
            in_fp32 = scores
        bona_fide, spoof = scores[is_bona_fide], scores[~is_bona_fide]
        yield Effect(
            name,
            trials.name,
            len(trials),
            precision,
            100 * eer(bona_fide, spoof)[0],
            min_dcf(bona_fide, spoof),
            float(np.abs(scores - in_fp32).max()),
            float(in_fp32.std()),
            1000 * _changed_order(in_fp32, scores, is_bona_fide),
        )


def score_in(precision: str, path: Path, trials: TrialList) -> np.ndarray:
    """Return the scores of a list in a precision of `PRECISIONS`, (trials,) float64."""
    requested = "bf16" if precision == BF16 else "fp32"
    # Plain, because torch's operations are emulated; the engines differ in the last bits.
    options = Options("cpu", None, 1, False, requested, None, None, engine="plain")
    opened = open_network(path, options)
    sad = opened.settings.sad
    waveforms = [read_speech(trials.path(index), sad) for index in range(len(trials))]
    is_emulated = precision in (TF32, TF32_CUT)
    with tf32_products(precision == TF32) if is_emulated else nullcontext():
        scores = opened.scorer.score_waveforms(waveforms).scores
    return scores.astype(np.float64)


def table(effects: Sequence[Effect]) -> str:
    """Return the effects as a table in Markdown."""
    lines = [
        "| network | trials | precision | EER, % | minDCF | difference | spread | rank changes |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in effects:
        numbers = (
            f"{row.eer:.3f} | {row.min_dcf:.4f} | {row.difference:.2g} | {row.spread:.2f} | "
            f"{row.rank_changes:.2g}"
        )
        trials = f"{row.trials} ({row.number:,})"
        lines.append(f"| {row.network} | {trials} | {row.precision} | {numbers} |")
    return "\n".join(lines)


def table_of_seeds(effects: Sequence[Effect]) -> str:
    """Return the effect of each precision on all networks of a kind as a table in Markdown."""
    lines = [
        "| networks | trials | precision | mean EER, % | moved | largest move | difference | "
        "rank changes |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str], dict[str, list[Effect]]] = {}
    for row in effects:
        kind = (_SEED.sub("", row.network), f"{row.trials} ({row.number:,})")
        groups.setdefault(kind, {}).setdefault(row.precision, []).append(row)
    for (name, trials), by_precision in groups.items():
        before = np.array([row.eer for row in by_precision[FP32]])
        for precision, rows in by_precision.items():
            eers = np.array([row.eer for row in rows])
            moves = np.abs(eers - before)
            numbers = (
                f"{eers.mean():.3f} | {np.count_nonzero(moves > 1e-9)} of {len(rows)} | "
                f"{moves.max():.3f} | {max(row.difference for row in rows):.2g} | "
                f"{max(row.rank_changes for row in rows):.2g}"
            )
            lines.append(f"| {name} | {trials} | {precision} | {numbers} |")
    return "\n".join(lines)


def section() -> str:
    """Return the part of RESULTS.md with the saved rows, between its marks."""
    effects = [Effect(**row) for row in json.loads(SAVED.read_text(encoding="utf-8"))]
    heading = "## What TF32 and bf16 do to error rates"
    alone = [effect for effect in effects if not _SEED.search(effect.network)]
    of_seeds = [effect for effect in effects if _SEED.search(effect.network)]
    parts = [_BEGIN, heading, _ABOUT, table(alone)]
    if of_seeds:
        parts += [_ABOUT_SEEDS, table_of_seeds(of_seeds)]
    return "\n".join([*parts, "", f"{_END}\n"])


def write_results(path: Path) -> None:
    """Write the section into RESULTS.md, replacing the present one, or at the end."""
    head, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    tail = rest.partition(f"{_END}\n")[2]
    write_text(path, f"{head.rstrip()}\n\n{section()}{tail}")


def _save(effects: Sequence[Effect]) -> None:
    """Save rows, replacing those of the same network and list."""
    rows = json.loads(SAVED.read_text(encoding="utf-8")) if SAVED.exists() else []
    renewed = {(effect.network, effect.trials) for effect in effects}
    others = [row for row in rows if (row["network"], row["trials"]) not in renewed]
    saved = others + [asdict(effect) for effect in effects]
    write_text(SAVED, json.dumps(saved, indent=1) + "\n")


def _named_files(words: Sequence[str]) -> dict[str, Path]:
    files = {}
    for word in words:
        name, _, path = word.partition("=")
        if not path:
            raise UsageError(f"{word!r}: write NAME=FILE.")
        files[name] = Path(path)
    if not files:
        raise UsageError("name a network (--network NAME=FILE) and a list (--list NAME=FILE).")
    return files


def _changed_order(before: np.ndarray, after: np.ndarray, is_bona_fide: np.ndarray) -> float:
    """Return the proportion of pairs of both classes whose order changes, including ties."""
    order_before = np.sign(before[is_bona_fide, None] - before[~is_bona_fide])
    order_after = np.sign(after[is_bona_fide, None] - after[~is_bona_fide])
    return float((order_before != order_after).mean())
