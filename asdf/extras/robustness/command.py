"""Measure the effect of codecs, noise, rooms etc. on detectors: EER, minDCF and Cllr by grade.

    python -m asdf robustness network.pt dev_list.txt --output robustness
    python -m asdf robustness a.pt b.pt dev_list.txt --output both   # compare on the same copies
    python -m asdf robustness network.pt dev_list.txt --output r --only codec,noise
    python -m asdf robustness network.pt dev_list.txt --output r --only white --grades white=5,-5
    python -m asdf robustness network.pt dev_list.txt --output r --benchmark audio-robustness
    python -m asdf robustness --list                                 # all degradations

Each recording of the list is degraded and scored as a trial; the copies depend on --seed, but not
on the number of --workers. Misses and false alarms are counted at one threshold: that of the
network, or the EER threshold on clean speech. Differences from clean speech are tested on the same
recordings. FOLDER gets report.html, results.csv, results.json, results.tex, results.txt, and a
score file for each network and condition. After a stop, the same command resumes.

Exit status: 0 all recordings measured, 1 some were left out, 2 error in the command line.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.named_recordings import read_recordings
from asdf.commands.options import Command, WeightsOptions, argument, flag, option, replicates_option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.extras.robustness.rivals import (
    check_labels,
    check_workers,
    made_by,
    open_rivals,
    write_results,
)
from asdf.runs.files import lock_work
from asdf.text import aligned

if TYPE_CHECKING:
    from asdf.extras.robustness import Chosen, Material, Rival
    from asdf.trials.trial_list import TrialList

_MB = 1_000_000


@dataclass(frozen=True, kw_only=True)
class RobustnessOptions(WeightsOptions):
    """Options of the command."""

    # With a default, since --list needs neither names nor an output; `main` asks for them.
    names: tuple[str, ...] = argument(
        "networks, and list of recordings with labels",
        metavar="NETWORK... LIST",
        default=(),
    )
    output: Path | None = option(
        "output folder for copies, score files and results", metavar="FOLDER"
    )
    only: str = option(
        "restrict to these families, degradations or conditions, such as codec,white_10",
        metavar="NAMES",
        default="",
    )
    grades: tuple[str, ...] = option(
        "grades of a degradation instead of the default ones, such as mp3=16,8",
        metavar="NAME=GRADES",
        default=(),
        repeated=True,
    )
    benchmark: str = option(
        "use the grades of a published benchmark: through-the-noise, audio-robustness",
        metavar="NAME",
        default="",
    )
    list: bool = flag("list all degradations with their grades")
    noise: Path | None = option("folder with recordings of noise", metavar="FOLDER")
    music: Path | None = option("folder with music (default: synthesised)", metavar="FOLDER")
    rooms: Path | None = option("folder with room impulse responses", metavar="FOLDER")
    encodec: Path | None = option("folder with transformers' EncodecModel", metavar="FOLDER")
    folder: Path | None = option(
        "folder that paths in the list are relative to (the folder of the list), or that contains "
        "the recordings of a protocol or corpus"
    )
    seed: int = option("seed of all random draws", metavar="N", default=0)
    workers: int = option(
        "number of additional processes that degrade recordings",
        metavar="N",
        default=2,
        check=check_workers,
    )
    keep_audio: bool = flag("keep the degraded copies in FOLDER/audio")
    # Without replicates there would be no p-values, and the tables of changes state them.
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    full_length: bool = flag("score whole recordings up to 62.5 s")


COMMAND = Command("robustness", __doc__, RobustnessOptions)


def main(arguments: list[str]) -> int:
    """Measure detectors; return 1 if recordings are left out, else 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a network or the list cannot be read, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    from asdf.extras.robustness import choose_conditions, parse_grades

    if args.list:
        show(_catalogue())
        return 0
    if len(args.names) < 2:
        raise UsageError("give one or more networks and a list of recordings: NETWORK... LIST.")
    if args.output is None:
        raise UsageError("the output folder is missing. Give it with --output FOLDER.")
    *networks, named = args.names
    trials = read_recordings(named, args.folder, classes=True)
    check_labels(trials, "robustness is")
    material = _material(args, trials)
    only = [name for name in args.only.split(",") if name]
    chosen = choose_conditions(material, only, parse_grades(args.grades), args.benchmark)
    _say_size(args, trials, len(chosen.conditions))
    # Networks come last: mistakes in the list or in names are reported before one is loaded.
    rivals = open_rivals(networks, args, args.device, args.full_length)
    return _run(args, arguments, trials, material, chosen, rivals)


def _run(
    args: RobustnessOptions,
    arguments: Sequence[str],
    trials: TrialList,
    material: Material,
    chosen: Chosen,
    rivals: Sequence[Rival],
) -> int:
    from asdf.extras.robustness import Plan, run_study, study_files

    assert args.output is not None
    plan = Plan(
        trials=trials,
        conditions=chosen.conditions,
        material=material,
        folder=args.output,
        seed=args.seed,
        workers=args.workers,
        replicates=args.replicates,
        keeps_audio=args.keep_audio,
        say=lambda sentence: show(sentence, sys.stderr),
    )
    # Two studies at once would remove each other's copies.
    locks = args.output / ".progress"
    with lock_work(locks, args.output):
        study = run_study(plan, rivals)
        contents = study_files(study, chosen, made_by("robustness", arguments, rivals))
        write_results(args.output, contents)
        shutil.rmtree(locks)
    show(contents["results.txt"].rstrip("\n"))
    show(f"written to {args.output}: report.html, results.*, scores/", sys.stderr)
    return int(bool(study.left_out))


def _material(args: RobustnessOptions, trials: TrialList) -> Material:
    from asdf.extras.robustness import Material

    speech = tuple(str(trials.path(index)) for index in range(len(trials)))
    return Material(
        speech,
        noise=_files(args.noise),
        music=_files(args.music),
        rooms=_files(args.rooms),
        encodec=str(args.encodec or ""),
    )


def _files(folder: Path | None) -> tuple[str, ...]:
    """Return the recordings below a folder; () without a folder."""
    from asdf.commands.score_recordings import find_recordings

    if folder is None:
        return ()
    return tuple(map(str, find_recordings([str(folder)]).paths))


def _say_size(args: RobustnessOptions, trials: TrialList, conditions: int) -> None:
    """Say before any work what it takes on the disk."""
    from asdf.extras.robustness import BYTES_PER_S, seconds_of

    assert args.output is not None  # `main` refuses anything else
    seconds = seconds_of(trials)
    one = seconds * BYTES_PER_S / _MB
    kept = f"up to {one * conditions:,.0f} MB in {args.output} (--keep-audio)"
    if not args.keep_audio:
        folder = args.output
        kept = f"up to {one:,.0f} MB at a time in {folder}, removed after scoring"
    show(
        f"{len(trials):,} recordings, {seconds / 60:,.1f} minutes, {conditions} conditions: copies "
        f"take {kept}",
        sys.stderr,
    )


def _catalogue() -> str:
    """Return all degradations with their grades, and the benchmarks."""
    from asdf.extras.robustness import BENCHMARKS, DEGRADATIONS, NOT_HERE, Material

    # Two names, so that babble, which needs another recording, counts as available.
    nothing = Material(speech=("one", "another"))
    rows: list[Sequence[str]] = [("family", "degradation", "grades", "unit", "")]
    missing = []
    for name, row in DEGRADATIONS.items():
        grades = " ".join(f"{grade:g}" for grade in row.grades)
        rows.append((row.family, name, grades or "-", row.unit, row.words))
        if reason := row.missing(nothing):
            missing.append(f"  {name}: {reason}")
    missing += [f"  {name}: {reason}" for name, reason in NOT_HERE.items()]
    lines = [*aligned(rows), "", "not available here:", *missing, "", "benchmarks:"]
    for name, benchmark in BENCHMARKS.items():
        lines += [f"  {name}: {benchmark.source}"]
        lines += [f"    {sentence}" for sentence in benchmark.differs]
    return "\n".join(lines)
