"""Division of a command's work: parts by hand, as an array of Slurm, or by Ray; and merging.

Invariant: a part is the same command with --part K/N, and the same command with --merge writes the
outputs, whoever starts them. All ways therefore give the same bytes as one process.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asdf.commands.options import Command, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import SUFFIXES
from asdf.runs.divisions import Part

# Options of the division, with the number of arguments that follow each.
_OF_DIVISION = {
    "--part": 1,
    "--merge": 0,
    "--slurm": 1,
    "--max-running": 1,
    "--ray": 1,
    "--ray-address": 1,
    "--dry-run": 0,
}


# Suffixes of files that a command reads in a folder; .scp is a table of Kaldi.
_READ_SUFFIXES = AUDIO_SUFFIXES | {*SUFFIXES, ".py", ".scp"}


def _check_count(count: int) -> None:
    if not 1 <= count < 1_000_000:
        raise UsageError(f"{count} parts: the number of parts must be between 1 and 999,999.")


@dataclass(frozen=True, kw_only=True)
class DividedOptions:
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
    ray: int | None = option(
        "run N parts with Ray, on this machine or a cluster, and merge them",
        "N",
        check=_check_count,
    )
    ray_address: str | None = option("Ray cluster: auto or HOST:PORT (only this machine)", "A")

    @property
    def is_divided(self) -> bool:
        """Whether this process does only a part of the work, or other work."""
        return bool(self.ways())

    def ways(self) -> list[str]:
        """Return the given options that divide the work, of which only one is allowed."""
        named = {
            "--part": self.part is not None,
            "--merge": self.merge,
            "--slurm": self.slurm is not None,
            "--ray": self.ray is not None,
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
    """Return the arguments of a command, and options of sbatch after '--'; [] without --slurm."""
    # Without --slurm, '--' has its usual meaning: what follows are names of files.
    is_array = any(word.partition("=")[0] == "--slurm" for word in arguments)
    if is_array:
        return split_at_dashes(arguments)
    return (list(arguments), [])


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


def check_division(args: DividedOptions, sbatch_options: Sequence[str]) -> None:
    """Refuse contradictory options of a division.

    Raises:
        UsageError: options contradict each other; the message names them.
    """
    ways = args.ways()
    if len(ways) > 1:
        raise UsageError(
            f"{' and '.join(ways)} exclude each other: --part does one part, --merge merges all "
            "parts, and --slurm and --ray do both. Give one of them."
        )
    if args.part is not None:
        Part.parse(args.part)
    if args.slurm is None and (sbatch_options or args.max_running is not None or args.dry_run):
        raise UsageError(
            "--max-running, --dry-run and sbatch options after -- need --slurm N. Give it too, or "
            "leave them out."
        )
    if args.ray is None and args.ray_address is not None:
        raise UsageError("--ray-address needs --ray N. Give it too, or leave --ray-address out.")
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
        # Sorted: file systems list names in any order, and the files identify the work.
        for path in sorted(Path(name).rglob("*")):
            if _is_read(path):
                files.append(str(path))
    return tuple(files)


def _is_read(path: Path) -> bool:
    """Whether a command reads a file in a folder, which may also contain outputs."""
    return path.suffix.lower() in _READ_SUFFIXES and not path.name.startswith(".")


def no_output() -> UsageError:
    """Return the error for divided work without an output."""
    return UsageError(
        "--part, --merge, --slurm and --ray save parts next to an output file, but no output file "
        "is given. Give one with --scores, --csv or --json."
    )


@dataclass(frozen=True)
class Division:
    """A command line whose work is divided.

    Attributes:
        command: Command to divide.
        arguments: Arguments, including those of the division.
        output: Output next to which parts are saved.
        main: Main function of the command.
    """

    command: Command[Any]
    arguments: Sequence[str]
    output: Path
    main: Callable[[list[str]], int]

    def words(self) -> list[str]:
        """Return the arguments of the undivided command.

        Raises:
            UsageError: an option of the division is abbreviated.
        """
        words = without_division(self.arguments)
        # Each part would divide the work again.
        if self.command.read(words).is_divided:
            raise UsageError(
                f"an option is abbreviated. Write {', '.join(_OF_DIVISION)} in full: each part "
                "would otherwise divide the work again."
            )
        return words

    def submit(
        self,
        args: DividedOptions,
        sbatch_options: Sequence[str],
        named: Sequence[str | Path | None],
    ) -> int:
        """Submit the missing parts, or print what would be submitted; return the exit status.

        Args:
            named: Files and folders that the command reads; replacing them makes the work
                different.

        Raises:
            UsageError: there is no Slurm here, or jobs for the same output are queued.
            AsdfError: Slurm refuses.
        """
        from asdf.launcher import PartArray, check_array_options, sbatch_words, submit_parts

        assert args.slurm is not None
        words = tuple(self.words())
        inputs = files_of(named)
        array = PartArray(self.command.name, words, inputs, args.slurm, self.output, Path.cwd())
        if array.is_merged():
            show(f"nothing to submit: {self.output} exists already. Remove it to compute it again.")
            return 0
        missing = array.missing()
        options = sbatch_words(array, missing, args.max_running, sbatch_options)
        if args.dry_run:
            for name, sbatch in options.items():
                show(f"# sbatch {shlex.join([*sbatch, str(array.home / name)])}")
                show(array.parts_script() if name == "parts.sh" else array.merge_script())
            return 0
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
        return 0

    def run_on_ray(self, args: DividedOptions, threads: int | None, device: str) -> int:
        """Compute all parts with Ray, and merge them; return the exit status.

        Args:
            threads: Number of CPU threads of a part; None if not given.
            device: Device of the command.

        Raises:
            UsageError: Ray is not installed, or the cluster is not reachable.
            AsdfError: a part failed.
        """
        from asdf.engines import RayCluster, run_parts

        assert args.ray is not None
        words = self.words()
        cluster = RayCluster(
            args.ray_address,
            threads or 1,
            uses_gpus=device != "cpu",
            shares_disk=True,
        )
        parts = [[*words, "--part", f"{number}/{args.ray}"] for number in range(1, args.ray + 1)]
        merge = [*words, "--merge"]
        merged = run_parts(self.main, parts, merge, cluster)
        if merged is None:
            return self.main(merge)
        # The merge ran in another process, whose output is passed on unchanged.
        sys.stderr.write(merged.said)
        sys.stdout.write(merged.shown)
        return merged.status
