"""The command line of `python -m asdf score`, and what of it can be refused before anything is read."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from asdf.errors import UsageError


def parser(description: str) -> argparse.ArgumentParser:
    """The command line, which `--help` describes so."""
    parser = argparse.ArgumentParser(
        prog="python -m asdf score",
        usage="python -m asdf score NETWORK FILE|FOLDER|LIST ... [options]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NETWORK", help="a network file of ASDF")
    parser.add_argument(
        "recordings", nargs="+", metavar="FILE|FOLDER|LIST", help="what to score; -: standard input"
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
        help="trial scores, of as much as the network's protocol hears, also of other than lists with labels",
    )
    parser.add_argument(
        "--full-length",
        action="store_true",
        help="whole recordings up to 62.5 s, also where the network was imported with its published 64,600 samples",
    )
    parser.add_argument("--threshold", type=float, metavar="T", help="bona fide from this score on")
    parser.add_argument(
        "--window",
        type=float,
        metavar="S",
        help="score windows of S seconds too; plotted as text, and beside OUT",
    )
    parser.add_argument(
        "--hop", type=float, metavar="S", help="seconds between windows; without it half a window"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="what paths in lists are relative to; without it the list's folder",
    )
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU where there is one), cpu, cuda, cuda:1"
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "tf32", "bf16"),
        default="fp32",
        help="what the network computes in (fp32); tf32 and bf16 are faster on GPUs that have them, with fewer digits",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads of the network; without it as many as there are usable cores",
    )
    parser.add_argument(
        "--network-folder", metavar="FOLDER", help="where the module of your own network class lies"
    )
    return parser


def window_of(given: argparse.Namespace) -> tuple[float, float] | None:
    """Window and hop in seconds; None without --window.

    Raises:
        UsageError: they leave parts of a recording out, or contradict each other.
    """
    from asdf.scoring.windows import in_samples

    if given.window is None:
        if given.hop is not None:
            raise UsageError("--hop says how far windows are apart: give --window too.")
        return None
    hop = given.window / 2 if given.hop is None else given.hop
    in_samples(given.window, hop)
    return given.window, hop


def check(given: argparse.Namespace) -> None:
    """Refuse what cannot be meant.

    Raises:
        UsageError: the network is a recording, or the threshold no number.
    """
    from asdf.facts import AUDIO_SUFFIXES

    network = Path(given.network)
    if network.suffix.lower() in AUDIO_SUFFIXES and not network.is_dir():
        raise UsageError(
            f"{network} is a recording; the network comes first: python -m asdf score NETWORK {network} ..."
        )
    if given.threshold is not None and not math.isfinite(given.threshold):
        raise UsageError(
            f"--threshold {given.threshold:g}: every recording would get the same verdict. Give a finite number."
        )
