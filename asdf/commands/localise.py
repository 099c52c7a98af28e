"""Measure how well scores per frame show which parts of recordings are spoofed.

    python -m asdf localise frames.json trials.tsv
    python -m asdf localise frames.json trials.tsv --resolution 0.02,0.16 --threshold 0.5
    python -m asdf localise frames.txt --hop 0.02 rttm --json results.json

FRAMES is what `python -m asdf score --segments` writes, or text with lines 'RECORDING FRAME SCORE',
as of WeDefense; the higher score means bona fide. REFERENCE is a table of trials with the column
spoofed_s (`python -m asdf corpora NAME FOLDER --trials OUT.tsv`), an RTTM, the label file of HAD or
LlamaPartialSpoof, or a file *_seglab_0.16.npy of PartialSpoof.

The range EER counts time: frames are cut where spoofed parts begin and end. The point EER counts
frames, which are spoofed if any part of them is. F1, precision, recall and intersection over union
(IoU) are of spoof, at the threshold: a frame that scores less is marked.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.options import command_parser
from asdf.commands.outputs import input_name, show, text_stream, write_outputs
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.text import aligned, quoted_and_more

if TYPE_CHECKING:
    from asdf.metrics.localisation import Agreement, Localisation, LocatedRecording
    from asdf.segments import Reference, ScoredFrames

_SHOWN = 5


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0.

    Raises:
        UsageError: a mistake in the options, or recordings of one file are not in the other.
        AsdfError: a file cannot be read or written, or there is no spoofed or no bona fide time.
    """
    args = _parser().parse_args(arguments)
    screen = text_stream([args.json])
    resolutions = _resolutions(args.resolution)
    # numpy comes after the options, as it takes a moment to load.
    from asdf.metrics.localisation import localisation
    from asdf.segments import read_frame_scores, read_reference

    frames = read_frame_scores(args.frames, args.hop)
    reference = read_reference(args.reference)
    recordings = _locate(frames, reference, args)
    result = localisation(recordings, resolutions, args.threshold)
    entry = json.dumps(_entry(result), indent=1) + "\n"
    write_outputs([(args.json, lambda path: write_text(path, entry))])
    name = input_name(args.frames)
    show(_describe(name, result, is_own=args.threshold is None), screen)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("localise", __doc__, "FRAMES REFERENCE [options]")
    parser.add_argument("frames", type=Path, metavar="FRAMES", help="scores per frame")
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="the spoofed parts")
    parser.add_argument(
        "--resolution",
        metavar="S,S",
        help="lengths of frames for point metrics, in seconds (default: that of the scores)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="T",
        help="mark frames that score less (default: at the range EER of these recordings)",
    )
    parser.add_argument(
        "--hop", type=float, metavar="S", help="the length of a frame, where FRAMES is text"
    )
    parser.add_argument(
        "--ignore-others",
        action="store_true",
        help="leave out recordings that only one of the files has",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to a file too")
    return parser


def _resolutions(text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        resolutions = [float(word) for word in text.split(",")]
    except ValueError:
        resolutions = [0.0]
    if not all(0 < resolution < float("inf") for resolution in resolutions):
        raise UsageError(f"--resolution {text}: expected seconds with commas, such as 0.02,0.16.")
    return resolutions


def _locate(
    frames: list[ScoredFrames], reference: Reference, args: argparse.Namespace
) -> list[LocatedRecording]:
    """Return the recordings that have frame scores, with their spoofed parts."""
    from asdf.metrics.localisation import LocatedRecording
    from asdf.segments import spoofed_parts

    recordings = []
    unknown = []
    scored = set()
    for recording in frames:
        index = reference.trials.index_of(recording.name)
        if index is None:
            unknown.append(recording.name)
            continue
        scored.add(index)
        duration_s = recording.duration_s
        if duration_s is None:
            whole_frames_s = len(recording.scores) * recording.hop_s
            stated = reference.durations_s.get(reference.trials.ids[index])
            duration_s = stated or whole_frames_s
        spoofed = spoofed_parts(reference.trials, index)
        recordings.append(LocatedRecording(recording.scores, recording.hop_s, spoofed, duration_s))
    unscored = []
    for index, name in enumerate(reference.trials.ids):
        if index not in scored:
            unscored.append(name)
    for names, has, lacks in (
        (unknown, args.frames, args.reference),
        (unscored, args.reference, args.frames),
    ):
        if names:
            _report_others(names, f"{has} has", f"{lacks} does not", args.ignore_others)
    return recordings


def _report_others(names: list[str], has: str, lacks: str, is_allowed: bool) -> None:
    what = f"{has} {len(names):,} recordings that {lacks}: {quoted_and_more(names, _SHOWN)}."
    if not is_allowed:
        raise AsdfError(f"{what} --ignore-others leaves them out.")
    show_error(f"left out: {what}")


def _entry(result: Localisation) -> dict[str, Any]:
    """Return the result for JSON, agreements with the metrics that follow from them."""
    entry = asdict(result)
    entry["agreement"] = _agreement_entry(result.agreement)
    for point, point_entry in zip(result.points, entry["points"], strict=True):
        point_entry["agreement"] = _agreement_entry(point.agreement)
    return entry


def _agreement_entry(agreement: Agreement) -> dict[str, float]:
    return {
        **asdict(agreement),
        "precision": agreement.precision,
        "recall": agreement.recall,
        "f1": agreement.f1,
        "iou": agreement.iou,
    }


def _describe(name: str, result: Localisation, is_own: bool) -> str:
    origin = ""
    if is_own:
        origin = ", that of the range EER, chosen on these recordings themselves"
    rows = [("frames of", "EER %", "F1", "IoU", "precision", "recall", "bona fide", "spoof")]
    rows.append(
        (
            "any (range)",
            f"{100 * result.range_eer.rate:.4f}",
            *_cells(result.agreement),
            f"{result.bona_fide_s:.1f} s",
            f"{result.spoof_s:.1f} s",
        )
    )
    for point in result.points:
        rows.append(
            (
                f"{point.hop_s:g} s",
                f"{100 * point.eer:.4f}",
                *_cells(point.agreement),
                f"{point.bona_fide:,}",
                f"{point.spoof:,}",
            )
        )
    lines = [
        f"{name}: {result.recordings:,} recordings",
        *aligned(rows, right=range(1, len(rows[0]))),
        f"F1, IoU, precision and recall of spoof, at the threshold {result.threshold:.6g}{origin}",
    ]
    return "\n".join(lines)


def _cells(agreement: Agreement) -> tuple[str, str, str, str]:
    return (
        f"{agreement.f1:.4f}",
        f"{agreement.iou:.4f}",
        f"{agreement.precision:.4f}",
        f"{agreement.recall:.4f}",
    )
