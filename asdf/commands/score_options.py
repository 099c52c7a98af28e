"""The options of `python -m asdf score`, and of other commands that open a Detector.

A list may be scored in parts, by hand or as a job array of Slurm, and the parts merged. A part is
the same command with --part K/N, and the same command with --merge writes the outputs, whoever
starts them. All ways therefore give the same bytes as one process.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from asdf.commands.journal import Part
from asdf.commands.options import NETWORK_HELP, WeightsOptions, argument, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import PREFIX, SUFFIXES
from asdf.places import split_part
from asdf.runs.layout import Layout
from asdf.runs.streams import STREAM
from asdf.shipped import SMALL

# Options of the division, with the number of arguments that follow each.
_OF_DIVISION = {"--part": 1, "--merge": 0, "--slurm": 1, "--max-running": 1, "--dry-run": 0}
# Suffixes of files that are read in a folder; .scp is a table of Kaldi.
_READ_SUFFIXES = AUDIO_SUFFIXES | {*SUFFIXES, ".py", ".scp"}


NO_OUTPUT = (
    "--part, --merge and --slurm save parts next to an output file, but no output file is given. "
    "Give one with --scores, --csv or --json."
)

Precision = Literal["auto", "fp32", "tf32", "bf16"]
Engine = Literal["auto", "graph", "packed", "plain"]
SpeechCheck = Literal["built-in", "silero", "off"]
STANDARD_INPUT = (STREAM, "/dev/stdin")
SMALL_HELP = f"{NETWORK_HELP}; default: the detector shipped with ASDF"


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


def _files_of(named: Sequence[str | Path | None]) -> tuple[str, ...]:
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
    array = PartArray(tuple(words), _files_of(named), args.slurm, output, Path.cwd())
    if array.is_merged():
        show(f"nothing to submit: {output} exists already. Remove it to compute it again.")
        return
    missing = array.missing()
    options = sbatch_words(array, missing, args.max_running, sbatch_options)
    if args.dry_run:
        for name, sbatch in options.items():
            show(f"# sbatch {shlex.join([*sbatch, str(array.scripts / name)])}")
            show(array.parts_script() if name == "parts.sh" else array.merge_script())
        return
    check_array_options(sbatch_options, "parts", "this machine does all of the work")
    job, merge = submit_parts(array, options)
    done = f"{args.slurm - len(missing)} of {args.slurm} parts were done before"
    if missing:
        done = f"submitted {len(missing)} of {args.slurm} parts as job {job}"
    jobs = ",".join(filter(None, (job, merge)))
    show(
        f"{done}, and their merge as job {merge}\n"
        f"  watch: squeue --job {jobs}; the jobs' output is in {array.scripts}\n"
        f"  cancel all: scancel {jobs.replace(',', ' ')}\n"
        "The same command submits unfinished parts again."
    )


def check_threshold(threshold: float) -> None:
    """Raise a UsageError if a threshold is not a number."""
    if not math.isfinite(threshold):
        raise UsageError(
            f"--threshold {threshold:g} would give every recording the same verdict. Give a finite "
            "number."
        )


def _check_segment_threshold(threshold: float) -> None:
    if not math.isfinite(threshold):
        raise UsageError(
            f"--segment-threshold {threshold:g} would mark all frames or none. Give a finite "
            "number."
        )


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(WeightsOptions):
    """How the network scores."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    full_length: bool = flag(
        "score whole recordings up to 62.5 s, even with a network that was imported with the "
        "published length of 64,600 samples"
    )
    threshold: float | None = option(
        "lowest score that is called bona fide", "T", check=check_threshold
    )
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    threads: int | None = option(
        "number of CPU threads (1 for networks below 10 million parameters, else the number of"
        " usable cores)",
        "N",
    )


@dataclass(frozen=True, kw_only=True)
class DetectorOptions(NetworkOptions):
    """How the network scores, and how whole recordings are judged."""

    no_parts: bool = flag(
        "do not search long recordings for spoofed parts; the search makes scoring about three "
        "times slower"
    )
    speech_check: SpeechCheck = option(
        "speech detector for whole recordings (%(default)s: energy, modulation and voicing); "
        "recordings without speech get no verdict; silero needs the package silero-vad",
        default="built-in",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(DetectorOptions, ArrayOptions):
    """Options of `python -m asdf score`."""

    network: str = argument(SMALL_HELP, "NETWORK", default=SMALL)
    recordings: tuple[str, ...] = argument(
        "recordings to score, by file, folder or list (.txt, .lst, .csv, .tsv); - is standard "
        "input",
        "FILE|FOLDER|LIST",
    )
    csv: Path | None = option("write the results as a CSV table; - is standard output", "OUT")
    json: Path | None = option("write the results as JSON; - is standard output", "OUT")
    scores: Path | None = option("write a score file; needs lists with labels, or --label", "OUT")
    label: str | None = option(
        "class of all given recordings, e.g. a folder of genuine calls; gives trial scores, and "
        "the labels for --scores",
        choices=("bona-fide", "spoof"),
    )
    trial: bool = flag(
        "compute trial scores: of the length that the network's protocol uses, even without labels"
    )
    window: float | None = option(
        "also score windows of S seconds; plotted as text, and as SVG next to OUT", "S"
    )
    hop: float | None = option("hop between windows in seconds (half a window)", "S")
    segments: Path | None = option(
        "mark spoofed parts: write OUT.rttm, OUT.json with frame scores, and plots; needs a "
        "network with a frame-level head",
        "OUT",
    )
    segment_threshold: float = option(
        "mark frames that score below T (%(default)s: spoof is more likely)",
        "T",
        default=0.0,
        check=_check_segment_threshold,
    )
    rttm: Path | None = option(
        "score each speaker of a conversation, with the turns in this RTTM file", "TURNS"
    )
    folder: Path | None = option(
        "folder that paths in lists are relative to (the folder of the list)"
    )
    precision: Precision = option(
        "number format of the network (%(default)s: tf32 on GPUs that support it, else fp32); tf32 "
        "and bf16 are faster and less precise",
        default="auto",
    )
    engine: Engine = option(
        "what computes the network (%(default)s): plain, as in training; packed, with weights "
        "rearranged for a CPU, which is faster; graph, ONNX Runtime, for the detector small alone; "
        "auto is the last of these that there is; scores agree within 1e-5",
        default="auto",
    )
    column: tuple[str, ...] = option(
        "class path of a column of your own, as 'my_column.Margin'; repeatable",
        "CLASS",
        default=(),
        repeated=True,
    )


def check_speaker_options(args: ScoreOptions) -> None:
    """Refuse options that do not apply to speakers.

    Raises:
        UsageError: there is one; the message names the first one.
    """
    if args.rttm is None:
        return
    others = {
        "--scores": args.scores,
        "--trial": args.trial or None,
        "--label": args.label,
        "--window": args.window,
        "--segments": args.segments,
    }
    for name, value in others.items():
        if value is not None:
            raise UsageError(
                f"{name} works with whole recordings, not with the speakers of --rttm. Leave "
                f"{name} out."
            )


def name_network(args: ScoreOptions) -> ScoreOptions:
    """Return the options with the shipped detector if only recordings are given.

    Raises:
        UsageError: a network is given, but not before recordings.
    """
    # The most likely mistakes are found here, before the seconds for importing torch.
    for word in args.recordings:
        path = Path(word)
        is_network = path.suffix.lower() in SUFFIXES
        if path.exists():
            # An existing folder holds recordings, whatever its suffix.
            is_network = is_network and not path.is_dir()
        else:
            is_network = is_network or word == SMALL or word.startswith(PREFIX)
        if not is_network:
            continue
        if _is_recording(args.network):
            raise UsageError(
                f"{args.network} is a recording, but the network comes first: "
                f"python -m asdf score {word} {args.network} ..."
            )
        raise UsageError(
            f"{word} is a network, and no recording is given. Name the recordings after it: "
            f"python -m asdf score {word} call.mp3"
        )
    if not _is_recording(args.network):
        return args
    return replace(args, network=SMALL, recordings=(args.network, *args.recordings))


def _is_recording(word: str) -> bool:
    """Whether an argument means recordings, such as a folder that is neither network nor run."""
    from asdf.commands.score_recordings import LIST_SUFFIXES

    path = Path(split_part(word)[0])
    if path.is_dir():
        # The folder of a network on the hub, and the folder of a run.
        marks = (path / "config.json", Layout(path).settings)
        return not any(mark.is_file() for mark in marks)
    return word in STANDARD_INPUT or path.suffix.lower() in AUDIO_SUFFIXES | LIST_SUFFIXES


def window_option(args: ScoreOptions) -> tuple[float, float] | None:
    """Return the window and the hop in seconds; None without --window.

    Raises:
        UsageError: they leave parts of a recording out, or contradict each other.
    """
    from asdf.scoring.whole_recording import in_samples

    if args.window is None:
        if args.hop is not None:
            raise UsageError("--hop needs --window S, whose windows it spaces.")
        return None
    # Half a window, so that shorter parts are complete in some window.
    hop = args.window / 2 if args.hop is None else args.hop
    in_samples(args.window, hop)
    return args.window, hop
