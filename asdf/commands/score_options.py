"""The options of `python -m asdf score`, and of other commands that open a Detector."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from asdf.commands.divided import DividedOptions
from asdf.commands.options import NETWORK_HELP, WeightsOptions, argument, flag, option
from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import PREFIX, SUFFIXES
from asdf.runs.layout import Layout
from asdf.runs.streams import STREAM
from asdf.shipped import SMALL

Precision = Literal["auto", "fp32", "tf32", "bf16"]
Engine = Literal["packed", "plain"]
SpeechCheck = Literal["built-in", "silero", "off"]

DIARISER = "pyannote/speaker-diarization-community-1"
STANDARD_INPUT = (STREAM, "/dev/stdin")
SMALL_HELP = f"{NETWORK_HELP}; without it {SMALL}, the detector that comes with ASDF"


def check_threshold(threshold: float) -> None:
    """Raise a UsageError if a threshold is not a number."""
    if not math.isfinite(threshold):
        raise UsageError(
            f"--threshold {threshold:g}: every recording would get the same verdict. "
            "Give a finite number."
        )


def _check_segment_threshold(threshold: float) -> None:
    if not math.isfinite(threshold):
        raise UsageError("--segment-threshold must be a finite number.")


@dataclass(frozen=True, kw_only=True)
class DetectorOptions(WeightsOptions):
    """How the network scores."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    full_length: bool = flag(
        "whole recordings up to 62.5 s, also if the network was imported with its published "
        "64,600 samples"
    )
    threshold: float | None = option("bona fide from this score on", "T", check=check_threshold)
    device: str = option("%(default)s (a GPU if there is one), cpu, cuda, cuda:1", default="auto")
    precision: Precision = option(
        "number format of the network (%(default)s: tf32 on GPUs that have it, else fp32); tf32 "
        "and bf16 are faster there, with fewer digits",
        default="auto",
    )
    engine: Engine = option(
        "how a CPU computes fp32 (%(default)s): with weights laid out for it, or as in training, "
        "which is slower, with scores within 1e-5",
        default="packed",
    )
    no_parts: bool = flag(
        "do not search long recordings for parts that sound spoofed by themselves, which takes the "
        "network about three times as long"
    )
    speech_check: SpeechCheck = option(
        "what looks for speech in whole recordings (%(default)s: energy, modulation and voicing); "
        "those without get no verdict; silero needs the package silero-vad",
        default="built-in",
    )
    threads: int | None = option(
        "CPU threads (1 for a network of fewer than 10 million parameters, else as many as usable"
        " cores)",
        "N",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(DetectorOptions, DividedOptions):
    """Options of `python -m asdf score`."""

    network: str = argument(SMALL_HELP, "NETWORK", default=SMALL)
    recordings: tuple[str, ...] = argument(
        "what to score; a list is a .txt, .lst, .csv or .tsv; -: standard input", "FILE|FOLDER|LIST"
    )
    csv: Path | None = option("write a table; -: to standard output", "OUT")
    json: Path | None = option("write the same as JSON; -: to standard output", "OUT")
    scores: Path | None = option(
        "write a score file of lists that have labels, or of what --label is of", "OUT"
    )
    label: str | None = option(
        "class of all that is named, as of a folder of genuine calls alone: trial scores, and "
        "labels for --scores",
        choices=("bona-fide", "spoof"),
    )
    reference: tuple[Path, ...] = option(
        "recording that all are compared with, by a network that compares; may be given several "
        "times, the mean of their embeddings counts; lists may have a column of references instead",
        "REF",
        default=(),
        repeated=True,
    )
    trial: bool = flag(
        "trial scores, of as much as the network's protocol hears, also without labels"
    )
    window: float | None = option(
        "score windows of S seconds too; plotted as text, and next to OUT", "S"
    )
    hop: float | None = option("seconds between the starts of windows (half a window)", "S")
    segments: Path | None = option(
        "mark spoofed parts: OUT.rttm, OUT.json with the scores of frames, and pictures; of "
        "networks with a frame-level head",
        "OUT",
    )
    segment_threshold: float = option(
        "mark frames that score less (%(default)s: where spoof is the likelier)",
        "T",
        default=0.0,
        check=_check_segment_threshold,
    )
    why: Path | None = option(
        "what the score rests on: OUT.json with maps over time and bands, and pictures; takes "
        "hundreds of passes per recording",
        "OUT",
    )
    why_by: Literal["occlusion", "gradients", "both"] = option(
        "how --why finds out (%(default)s: cells are replaced; integrated gradients need captum)",
        default="occlusion",
    )
    why_filler: Literal["noise", "silence"] = option(
        "what --why replaces cells by (%(default)s of the recording's own level in each band)",
        default="noise",
    )
    why_start: float | None = option(
        "--why examines the window from there on (the window with the lowest score; of trial "
        "scores the beginning)",
        "S",
    )
    watermarks: bool = flag(
        "search for watermarks too, by those of audioseal, perth and silentcipher that are "
        "installed; they are reported apart from the score, and do not change it"
    )
    rationale: bool = flag(
        "the text that an audio language model generates too: in --json, --csv, and in "
        "OUT.rationales.csv next to a score file; it is a model's words, and not evidence"
    )
    rttm: Path | None = option(
        "score each speaker of a conversation by the turns in this RTTM", "TURNS"
    )
    diarise: Path | None = option(
        "the same by turns that pyannote.audio finds, which are written to this RTTM", "TURNS"
    )
    diariser: str = option(
        "pipeline of --diarise: a name on the hub, or its folder", "NAME", DIARISER
    )
    folder: Path | None = option(
        "folder that paths in lists are relative to (the list's own folder)"
    )


def check_speaker_options(args: ScoreOptions) -> None:
    """Refuse options that do not apply to speakers.

    Raises:
        UsageError: there is one; the message names the first one.
    """
    if args.rttm is None and args.diarise is None:
        return
    if args.rttm is not None and args.diarise is not None:
        raise UsageError("--rttm says who speaks when, and --diarise finds it: name one of them.")
    others = {
        "--scores": args.scores,
        "--trial": args.trial or None,
        "--label": args.label,
        "--window": args.window,
        "--segments": args.segments,
        "--why": args.why,
        "--watermarks": args.watermarks or None,
        "--rationale": args.rationale or None,
    }
    for name, value in others.items():
        if value is not None:
            raise UsageError(f"{name} is of whole recordings, and not of their speakers.")


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
            is_network = is_network and not path.is_dir()
        else:
            is_network = is_network or word == SMALL or word.startswith(PREFIX)
        if not is_network:
            continue
        if _is_recording(args.network):
            raise UsageError(
                f"{args.network} is a recording; the network comes first: "
                f"python -m asdf score {word} {args.network} ..."
            )
        raise UsageError(
            f"{word} is a network: name what to score behind it: python -m asdf score {word} "
            "call.mp3"
        )
    if not _is_recording(args.network):
        return args
    return replace(args, network=SMALL, recordings=(args.network, *args.recordings))


def _is_recording(word: str) -> bool:
    """Whether an argument means recordings, such as a folder that is neither network nor run."""
    from asdf.commands.score_recordings import LIST_SUFFIXES

    path = Path(word)
    if path.is_dir():
        marks = (path / "config.json", Layout(path).settings)
        return not any(mark.is_file() for mark in marks)
    return word in STANDARD_INPUT or path.suffix.lower() in AUDIO_SUFFIXES | LIST_SUFFIXES


def window_option(args: ScoreOptions) -> tuple[float, float] | None:
    """Return the window and the hop in seconds; None without --window.

    Raises:
        UsageError: they leave parts of a recording out, or contradict each other.
    """
    from asdf.scoring.windows import in_samples

    if args.window is None:
        if args.hop is not None:
            raise UsageError("--hop is the distance between windows: give --window too.")
        return None
    # Half a window, so that shorter parts are complete in some window.
    hop = args.window / 2 if args.hop is None else args.hop
    in_samples(args.window, hop)
    return args.window, hop
