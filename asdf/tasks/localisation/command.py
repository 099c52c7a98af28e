"""Evaluate frame scores that locate the spoofed parts of recordings.

    python -m asdf localise frames.json trials.tsv
    python -m asdf localise frames.json trials.tsv --resolution 0.02,0.16 --threshold 0.5,-0.1
    python -m asdf localise frames.txt --hop 0.02 rttm --json results.json

FRAMES is a file from `python -m asdf score --segments`, or a text file with lines 'RECORDING FRAME
SCORE', as in WeDefense; a higher score means bona fide. REFERENCE is a table of trials with the
column spoofed_s (`python -m asdf corpora NAME FOLDER --trials OUT.tsv`), an RTTM file, lines 'NAME
START END LABEL' with times in seconds, the label file of HAD or LlamaPartialSpoof, or a file
*_seglab_0.16.npy of PartialSpoof.

The range EER measures time: frames are cut at the boundaries of spoofed parts. The point EER counts
frames; a frame is spoofed if any part of it is. F1, precision, recall and intersection over union
(IoU) of spoof are computed at the threshold, below which frames are marked. The score of a coarser
frame is the minimum of the scores in it, so each resolution has its own threshold.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.options import Command, argument, flag, option, replicates_option
from asdf.commands.outputs import input_name, show, text_stream, write_outputs
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Column, Columns, Table, each, rate, texts
from asdf.text import quoted_and_more, read_number

if TYPE_CHECKING:
    from asdf.segments import Reference, ScoredFrames
    from asdf.tasks.localisation.located_intervals import LocalisationIntervals
    from asdf.tasks.localisation.located_measures import Agreement, Localisation, LocatedRecording

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class LocaliseOptions:
    """Options of the command."""

    frames: Path = argument(
        "file with frame scores",
        metavar="FRAMES",
    )
    reference: Path = argument(
        "file with the spoofed parts",
        metavar="REFERENCE",
    )
    resolution: str | None = option(
        "frame lengths for point metrics in seconds (default: that of the scores)",
        metavar="S,S",
    )
    threshold: str | None = option(
        "mark frames that score below T: one threshold for all, or one per resolution, of which "
        "the first also applies to the range metrics (default: at the EERs of these recordings)",
        metavar="T,T",
    )
    hop: float | None = option(
        "frame length in seconds, if FRAMES is a text file",
        metavar="S",
    )
    ignore_others: bool = flag("ignore recordings that are in only one of the files")
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
    json: Path | None = option(
        "also write the results as JSON",
        metavar="OUT",
    )


COMMAND = Command("localise", __doc__, LocaliseOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0.

    Raises:
        UsageError: a mistake in the options, or recordings of one file are not in the other.
        AsdfError: a file cannot be read or written, or there is no spoofed or no bona fide time.
    """
    args = COMMAND.read(arguments)
    screen = text_stream([args.json])
    resolutions = _resolutions(args.resolution)
    thresholds = _thresholds(args.threshold, resolutions)
    # Imported after the options are read, because numpy takes a moment to load.
    from asdf.segments import read_frame_scores, read_reference
    from asdf.tasks.localisation.located_measures import localisation

    frames = read_frame_scores(args.frames, args.hop)
    reference = read_reference(args.reference)
    recordings, speakers = _locate(frames, reference, args)
    result = localisation(recordings, resolutions, thresholds)
    intervals = _intervals(recordings, result, speakers, args.replicates)
    entry = as_json(_entry(result, intervals), indent=1)
    write_outputs([(args.json, lambda path: write_text(path, entry))])
    lines = _describe(input_name(args.frames), result, is_own=args.threshold is None)
    if intervals is not None:
        lines.append(_describe_intervals(intervals, "speakers" if speakers else "recordings"))
    show("\n".join(lines), screen)
    return 0


def _intervals(
    recordings: list[LocatedRecording],
    result: Localisation,
    speakers: list[str] | None,
    replicates: int,
) -> LocalisationIntervals | None:
    from asdf.runs.progress import track
    from asdf.tasks.localisation.located_intervals import localisation_intervals
    from asdf.tasks.localisation.located_measures import pooled_stretches

    if not replicates:
        return None
    # The bootstrap counts its own replicates, and each call moves the bar on by one.
    bar = iter(track(range(replicates), replicates, "bootstrap", unit="replicates"))

    def advance(_: int) -> None:
        next(bar, None)

    return localisation_intervals(
        pooled_stretches(recordings),
        result.threshold,
        speakers=speakers,
        replicates=replicates,
        progress=advance,
    )


def _describe_intervals(intervals: LocalisationIntervals, drawn: str) -> str:
    parts = []
    for name, interval, factor in (
        ("range EER", intervals.range_eer, 100),
        ("F1", intervals.f1, 1),
        ("IoU", intervals.iou, 1),
    ):
        parts.append(f"{name} {factor * interval.low:.4g} .. {factor * interval.high:.4g}")
    return f"95 % over {intervals.groups} {drawn}: {', '.join(parts)}"


def _resolutions(text: str | None) -> list[float]:
    if text is None:
        return []
    try:
        resolutions = [read_number(word) for word in text.split(",")]
    except ValueError:
        # Refused below, like a number that is not positive.
        resolutions = [0.0]
    if not all(0 < resolution < float("inf") for resolution in resolutions):
        raise UsageError(
            f"--resolution {text}: expected seconds separated by commas, such as 0.02,0.16."
        )
    return resolutions


def _thresholds(text: str | None, resolutions: list[float]) -> float | list[float] | None:
    if text is None:
        return None
    try:
        thresholds = [read_number(word) for word in text.split(",")]
    except ValueError:
        # Refused below, like a number that is not finite.
        thresholds = [math.nan]
    if not all(map(math.isfinite, thresholds)):
        raise UsageError(
            f"--threshold {text}: expected numbers separated by commas, such as 0.5,-0.1."
        )
    if len(thresholds) == 1:
        return thresholds[0]
    if len(thresholds) != len(resolutions):
        raise UsageError(
            f"--threshold {text}: {len(thresholds)} thresholds for {len(resolutions)} frame "
            "lengths. Give one threshold, or one per value of --resolution, in the same order."
        )
    return thresholds


def _locate(
    frames: list[ScoredFrames],
    reference: Reference,
    args: LocaliseOptions,
) -> tuple[list[LocatedRecording], list[str] | None]:
    """Return the recordings with frame scores and their spoofed parts, and their speakers.

    The speakers are None if one is unknown.
    """
    from asdf.segments import spoofed_parts
    from asdf.tasks.localisation.located_measures import LocatedRecording

    recordings = []
    speakers = []
    unknown = []
    scored = set()
    known_speakers = reference.trials.columns.get("speaker")
    for recording in frames:
        index = reference.trials.index_of(recording.name)
        if index is None:
            unknown.append(recording.name)
            continue
        scored.add(index)
        speakers.append(known_speakers[index] if known_speakers else "")
        duration_s = recording.duration_s
        if duration_s is None:
            # Text with a score per line states no duration.
            whole_frames_s = len(recording.scores) * recording.hop_s
            stated = reference.durations_s.get(reference.trials.ids[index])
            duration_s = stated or whole_frames_s
        spoofed = spoofed_parts(reference.trials, index)
        recordings.append(LocatedRecording(recording.scores, recording.hop_s, spoofed, duration_s))
    unscored = []
    for index, name in enumerate(reference.trials.ids):
        if index not in scored:
            unscored.append(name)
    _report_others(unknown, unscored, args)
    return recordings, speakers if all(speakers) else None


def _report_others(unknown: list[str], unscored: list[str], args: LocaliseOptions) -> None:
    """Report recordings that are in only one of the files; an error unless they are ignored."""
    for names, has, lacks in (
        (unknown, args.frames, args.reference),
        (unscored, args.reference, args.frames),
    ):
        if not names:
            continue
        shown = quoted_and_more(names, _SHOWN)
        what = f"{has} has {len(names):,} recordings that are not in {lacks}: {shown}."
        if not args.ignore_others:
            raise AsdfError(
                f"{what} Check that both files are for the same set, or ignore these recordings "
                "with --ignore-others."
            )
        show_error(f"ignored: {what}")


def _entry(result: Localisation, intervals: LocalisationIntervals | None) -> dict[str, Any]:
    """Return the result for JSON, with the metrics derived from agreements."""
    entry = asdict(result)
    if intervals is not None:
        entry["intervals"] = asdict(intervals)
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


def _describe(name: str, result: Localisation, is_own: bool) -> list[str]:
    origin = ""
    if is_own:
        origin = ", which is at the EER of these recordings themselves"
    points = result.points
    eers = [result.range_eer.rate, *(point.eer for point in points)]
    thresholds = [result.threshold, *(point.threshold for point in points)]
    agreements = [result.agreement, *(point.agreement for point in points)]
    columns: Columns = [
        rate("eer", "EER", 4, states_unit=True).with_values(eers),
        texts("threshold", [f"{threshold:.6g}" for threshold in thresholds]),
    ]
    for metric in ("F1", "IoU", "precision", "recall"):
        columns.append(Column(metric, metric).with_values(each(agreements, metric.lower())))
    counted = [f"{point.bona_fide:,}" for point in points]
    columns.append(texts("bona fide", [f"{result.bona_fide_s:.1f} s", *counted]))
    counted = [f"{point.spoof:,}" for point in points]
    columns.append(texts("spoof", [f"{result.spoof_s:.1f} s", *counted]))
    names = ["any (range)", *(f"{point.hop_s:g} s" for point in points)]
    return [
        f"{name}: {result.recordings:,} recordings",
        *as_lines(Table(names, columns, "frames of")),
        f"F1, IoU, precision and recall of spoof, at the threshold of each line{origin}",
    ]
