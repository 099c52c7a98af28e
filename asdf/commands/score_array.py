"""Scoring of a list in parts: by hand, or as a job array of Slurm; and their merge.

Invariant: a part is the same command with --part K/N, and the same command with --merge writes the
outputs, whoever starts them. All ways therefore give the same bytes as one process.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.options import flag, option
from asdf.commands.outputs import show
from asdf.commands.score_parts import Part
from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import SUFFIXES

# Options of the division, with the number of arguments that follow each.
_OF_DIVISION = {"--part": 1, "--merge": 0, "--slurm": 1, "--max-running": 1, "--dry-run": 0}
# Suffixes of files that are read in a folder; .scp is a table of Kaldi.
_READ_SUFFIXES = AUDIO_SUFFIXES | {*SUFFIXES, ".py", ".scp"}


def _check_count(count: int) -> None:
    if not 1 <= count < 1_000_000:
        raise UsageError(f"{count} parts: the number of parts must be between 1 and 999,999.")


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """On many machines."""

    part: str | None = option(
        "do only the K-th of N parts of the work, on this machine, and save the results next to "
        "the outputs, for --merge",
        "K/N",
    )
    merge: bool = flag(
        "write the outputs from the parts 1/N to N/N; they have the same bytes as from one process"
    )
    slurm: int | None = option(
        "submit N parts as a Slurm job array, and a job that merges them; options after -- are "
        "passed to sbatch",
        "N",
        check=_check_count,
    )
    max_running: int | None = option("maximum number of array tasks that run at a time", "N")
    dry_run: bool = flag("print the jobs that --slurm would submit")

    @property
    def ways(self) -> list[str]:
        """The given options that divide the work, of which only one is allowed."""
        named = {
            "--part": self.part is not None,
            "--merge": self.merge,
            "--slurm": self.slurm is not None,
        }
        return [name for name, is_named in named.items() if is_named]


def split_at_dashes(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before '--', and those after it."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    index = words.index("--")
    return words[:index], words[index + 1 :]


def split_sbatch(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments, and options of sbatch after '--'; [] without --slurm."""
    # Without --slurm, '--' has its usual meaning: what follows are names of files.
    is_array = any(word.partition("=")[0] == "--slurm" for word in arguments)
    return split_at_dashes(arguments) if is_array else (list(arguments), [])


def without_division(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of the undivided command."""
    words = []
    following = 0
    for word in arguments:
        if following:
            following -= 1
            continue
        name, equals, _ = word.partition("=")
        if name not in _OF_DIVISION:
            words.append(word)
        elif not equals:
            following = _OF_DIVISION[name]
    return words


def check_division(args: ArrayOptions, sbatch_options: Sequence[str]) -> None:
    """Refuse contradictory options of a division.

    Raises:
        UsageError: options contradict each other; the message names them.
    """
    if len(args.ways) > 1:
        raise UsageError(
            f"{' and '.join(args.ways)} exclude each other: --part does one part, --merge merges "
            "all parts, and --slurm does both. Give one of them."
        )
    if args.part is not None:
        Part.parse(args.part)
    if args.slurm is None and (sbatch_options or args.max_running is not None or args.dry_run):
        raise UsageError(
            "--max-running, --dry-run and sbatch options after -- need --slurm N. Give it too, or "
            "leave them out."
        )
    if args.max_running is not None and args.max_running < 1:
        raise UsageError(f"--max-running {args.max_running}: give at least 1.")


def files_of(named: Sequence[str | Path | None]) -> tuple[str, ...]:
    """Return the given files, and for folders their recordings, weights, tables and code."""
    files = []
    for name in named:
        if name is None:
            continue
        if not Path(name).is_dir():
            files.append(str(name))
            continue
        # Sorted: file systems list names in any order, and the files identify the work. A folder
        # may also contain outputs.
        for path in sorted(Path(name).rglob("*")):
            if path.suffix.lower() in _READ_SUFFIXES and not path.name.startswith("."):
                files.append(str(path))
    return tuple(files)


def no_output() -> UsageError:
    """Return the error for divided work without an output."""
    return UsageError(
        "--part, --merge and --slurm save parts next to an output file, but no output file is "
        "given. Give one with --scores, --csv or --json."
    )


def submit_list(
    args: ArrayOptions,
    words: Sequence[str],
    sbatch_options: Sequence[str],
    output: Path,
    named: Sequence[str | Path | None],
) -> None:
    """Submit the missing parts and their merge, or print what would be submitted.

    Args:
        words: Arguments of the undivided command.
        output: Output next to which parts are saved.
        named: Files and folders that are read; replacing them makes the work different.

    Raises:
        UsageError: there is no Slurm here, or jobs for the same output are queued.
        AsdfError: Slurm refuses.
    """
    from asdf.launcher import PartArray, check_array_options, sbatch_words, submit_parts

    assert args.slurm is not None
    array = PartArray(tuple(words), files_of(named), args.slurm, output, Path.cwd())
    if array.is_merged():
        show(f"nothing to submit: {output} exists already. Remove it to compute it again.")
        return
    missing = array.missing()
    options = sbatch_words(array, missing, args.max_running, sbatch_options)
    if args.dry_run:
        for name, sbatch in options.items():
            show(f"# sbatch {shlex.join([*sbatch, str(array.home / name)])}")
            show(array.parts_script() if name == "parts.sh" else array.merge_script())
        return
    check_array_options(sbatch_options, "parts", "this machine does all of the work")
    submitted = submit_parts(array, options)
    done = f"{args.slurm - len(missing)} of {args.slurm} parts were done before"
    if missing:
        done = f"submitted {len(missing)} of {args.slurm} parts as job {submitted.array}"
    jobs = ",".join(filter(None, (submitted.array, submitted.merge)))
    show(
        f"{done}, and their merge as job {submitted.merge}\n"
        f"  watch: squeue --job {jobs}; the jobs' output is in {array.home}\n"
        f"  cancel all: scancel {jobs.replace(',', ' ')}\n"
        "The same command submits unfinished parts again."
    )
