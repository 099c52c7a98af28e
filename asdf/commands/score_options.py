"""The command line of `python -m asdf score`, and mistakes that show before anything is read."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from asdf.commands.options import NETWORK_HELP, command_parser
from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES


def parser(description: str | None) -> argparse.ArgumentParser:
    """Make the parser; `description` is shown by --help."""
    parser = command_parser("score", description, "NETWORK FILE|FOLDER|LIST ... [options]")
    parser.add_argument("network", metavar="NETWORK", help=NETWORK_HELP)
    parser.add_argument(
        "recordings",
        nargs="+",
        metavar="FILE|FOLDER|LIST",
        help="what to score; a list is a .txt, .lst, .csv or .tsv; -: standard input",
    )
    parser.add_argument(
        "--csv", type=Path, metavar="OUT", help="write a table; -: to standard output"
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the same as JSON; -: to standard output"
    )
    parser.add_argument(
        "--scores", type=Path, metavar="OUT", help="write a score file of lists that have labels"
    )
    parser.add_argument(
        "--trial",
        action="store_true",
        help="trial scores, of as much as the network's protocol hears, also without labels",
    )
    parser.add_argument(
        "--window",
        type=float,
        metavar="S",
        help="score windows of S seconds too; plotted as text, and next to OUT",
    )
    parser.add_argument(
        "--hop",
        type=float,
        metavar="S",
        help="seconds between the starts of windows (half a window)",
    )
    parser.add_argument(
        "--segments",
        type=Path,
        metavar="OUT",
        help="mark spoofed parts: OUT.rttm, OUT.json with the scores of frames, and pictures; of "
        "networks with a frame-level head",
    )
    parser.add_argument(
        "--segment-threshold",
        type=float,
        default=0.0,
        metavar="T",
        help="mark frames that score less (0: where spoof is the likelier)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder that paths in lists are relative to (the list's own folder)",
    )
    add_detector_options(parser)
    return parser


def add_detector_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a network scores, for every command that opens a Detector."""
    parser.add_argument(
        "--full-length",
        action="store_true",
        help="whole recordings up to 62.5 s, also if the network was imported with its published "
        "64,600 samples",
    )
    parser.add_argument("--threshold", type=float, metavar="T", help="bona fide from this score on")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1"
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "tf32", "bf16"),
        default="auto",
        help="number format of the network (auto: tf32 on GPUs that have it, else fp32); tf32 and "
        "bf16 are faster there, with fewer digits",
    )
    parser.add_argument(
        "--engine",
        choices=("packed", "plain"),
        default="packed",
        help="how a CPU computes fp32 (packed): with weights laid out for it, or as in training, "
        "which is slower, with scores within 1e-5",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads (1 for a network of fewer than 10 million parameters, else as many as "
        "usable cores)",
    )
    parser.add_argument(
        "--base",
        metavar="WEIGHTS",
        help="the pretrained weights of a network file that holds only what was trained",
    )
    parser.add_argument(
        "--network-folder",
        metavar="FOLDER",
        help="folder with the module of your own network class",
    )


def window_option(args: argparse.Namespace) -> tuple[float, float] | None:
    """Return window and hop in seconds; None without --window.

    Raises:
        UsageError: they leave parts of a recording out, or contradict each other.
    """
    from asdf.scoring.windows import in_samples

    if args.window is None:
        if args.hop is not None:
            raise UsageError("--hop is the distance between windows: give --window too.")
        return None
    # Half a window: whatever is shorter than that lies whole in some window.
    hop = args.window / 2 if args.hop is None else args.hop
    in_samples(args.window, hop)
    return args.window, hop


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot be meant.

    Raises:
        UsageError: the network is a recording, or a threshold no number.
    """
    network = Path(args.network)
    # The most likely slip is found here, before the seconds that importing torch takes.
    if network.suffix.lower() in AUDIO_SUFFIXES and not network.is_dir():
        raise UsageError(
            f"{network} is a recording; the network comes first: "
            f"python -m asdf score NETWORK {network} ..."
        )
    check_threshold(args.threshold)
    if not math.isfinite(args.segment_threshold):
        raise UsageError("--segment-threshold must be a finite number.")


def check_threshold(threshold: float | None) -> None:
    """Raise a UsageError where a threshold is no number."""
    if threshold is not None and not math.isfinite(threshold):
        raise UsageError(
            f"--threshold {threshold:g}: every recording would get the same verdict. "
            "Give a finite number."
        )
