"""`evaluate` for frame scores that locate the spoofed parts of recordings.

The range EER measures time: frames are cut at the boundaries of spoofed parts. The point EER counts
frames; a frame is spoofed if any part of it is. The score of a coarser frame is the minimum of the
scores in it, so each resolution has its own threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from asdf.commands.evaluate import EvaluateOptions
from asdf.commands.judged_files import System
from asdf.commands.outputs import replicates_bar, show, write_outputs
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.runs.streams import input_name, show_error
from asdf.segments import Reference, ScoredFrames, read_frame_scores, read_reference, spoofed_parts
from asdf.tables.renderers import as_json, as_lines
from asdf.tables.table import Column, Columns, Table, each, rate, texts
from asdf.tasks.localisation.located_measures import (
    Localisation,
    LocatedRecording,
    localisation,
    localisation_intervals,
)
from asdf.text import quoted_and_more, read_number
from asdf.trials.trial_list import known_speakers

_SHOWN = 5


def evaluate(args: EvaluateOptions, systems: Sequence[System], screen: TextIO) -> None:
    """Write the requested file, and print the metrics on `screen`.

    Raises:
        UsageError: a mistake in the options, or recordings of one file are not in the other.
        AsdfError: a file cannot be read or written, or there is no spoofed or no bona fide time.
    """
    if len(systems) != 2:
        raise UsageError(
            "frame scores need a second file, with the spoofed parts. Give FRAMES REFERENCE."
        )
    paths = [system.path for system in systems]
    expected = "seconds separated by commas, such as 0.02,0.16"
    resolutions = _numbers("resolution", args.resolution, 0, expected)
    expected = "numbers separated by commas, such as 0.5,-0.1"
    thresholds = _numbers("threshold", args.threshold, -math.inf, expected)
    if len(thresholds) not in (0, 1, len(resolutions)):
        raise UsageError(
            f"--threshold {args.threshold}: {len(thresholds)} thresholds for {len(resolutions)} "
            "frame lengths. Give one threshold, or one per value of --resolution, in the same "
            "order."
        )
    frames = read_frame_scores(paths[0], args.hop)
    reference = read_reference(paths[1])
    recordings, speakers = match_recordings(frames, reference, paths, args.ignore_others)
    threshold = thresholds[0] if len(thresholds) == 1 else thresholds or None
    result = localisation(recordings, resolutions, threshold)
    intervals = None
    if args.replicates:
        with replicates_bar(f"intervals of {systems[0].name}") as progress:
            intervals = localisation_intervals(
                recordings, result, speakers=speakers, replicates=args.replicates, progress=progress
            )
    entry = asdict(result)
    entry["agreement"] |= result.agreement.rates()
    for record, point in zip(entry["points"], result.points, strict=True):
        record["agreement"] |= point.agreement.rates()
    if intervals is not None:
        known = {name: asdict(interval) for name, interval in intervals.items()}
        entry["intervals"] = {**known, "groups": intervals["range_eer"].groups}
    write_outputs([(args.json, lambda path: write_text(path, as_json(entry, indent=1)))])
    lines = result_lines(input_name(paths[0]), result, is_own=args.threshold is None)
    if intervals is not None:
        eer, f1, iou = intervals.values()
        drawn = "speakers" if speakers else "recordings"
        lines.append(
            f"95 % over {eer.groups} {drawn}: range EER {100 * eer.low:.4g} .. "
            f"{100 * eer.high:.4g}, F1 {f1.low:.4g} .. {f1.high:.4g}, IoU {iou.low:.4g} .. "
            f"{iou.high:.4g}"
        )
    show("\n".join(lines), screen)


def _numbers(option: str, text: str | None, above: float, expected: str) -> list[float]:
    """Return the numbers of an option, separated by commas; none without the option."""
    try:
        numbers = [read_number(word) for word in text.split(",")] if text is not None else []
    except ValueError:
        numbers = [math.nan]
    if not all(above < number < math.inf for number in numbers):
        raise UsageError(f"--{option} {text}: expected {expected}.")
    return numbers


def match_recordings(
    frames: list[ScoredFrames], reference: Reference, paths: Sequence[Path], ignore_others: bool
) -> tuple[list[LocatedRecording], Sequence[str] | None]:
    """Return the recordings with frame scores and their spoofed parts, and their speakers.

    The speakers are None if one is unknown, or all are one.
    """
    recordings = []
    speakers = []
    unknown = []
    scored = set()
    of_trials = reference.trials.columns.get("speaker")
    for recording in frames:
        index = reference.trials.index_of(recording.name)
        if index is None:
            unknown.append(recording.name)
            continue
        if index in scored:
            raise AsdfError(
                f"{paths[0]}: {recording.name!r} also has scores under another name. Keep one."
            )
        scored.add(index)
        speakers.append(of_trials[index] if of_trials else "")
        # Text with a score per line states no duration.
        duration_s = recording.duration_s
        if duration_s is None:
            stated = reference.durations_s.get(reference.trials.ids[index])
            duration_s = stated or len(recording.scores) * recording.hop_s
        spoofed = spoofed_parts(reference.trials, index)
        recordings.append(LocatedRecording(recording.scores, recording.hop_s, spoofed, duration_s))
    unscored = [name for index, name in enumerate(reference.trials.ids) if index not in scored]
    # Recordings that are in only one of the files.
    for names, (has, lacks) in ((unknown, paths), (unscored, paths[::-1])):
        if names:
            shown = quoted_and_more(names, _SHOWN)
            what = f"{has} has {len(names):,} recordings that are not in {lacks}: {shown}."
            if not ignore_others:
                raise AsdfError(
                    f"{what} Check that both files are for the same set, or ignore these "
                    "recordings with --ignore-others."
                )
            show_error(f"ignored: {what}")
    return recordings, known_speakers(speakers)


def result_lines(name: str, result: Localisation, is_own: bool) -> list[str]:
    """Return the metrics of a file as lines of text, a row per length of frames."""
    origin = ", which is at the EER of these recordings themselves" if is_own else ""
    points = result.points
    eers = [result.range_eer.rate, *(point.eer for point in points)]
    thresholds = [result.threshold, *(point.threshold for point in points)]
    agreements = [result.agreement, *(point.agreement for point in points)]
    metrics = [Column(name.lower(), name) for name in ("F1", "IoU", "precision", "recall")]
    bona_fide = [f"{result.bona_fide_s:.1f} s", *(f"{point.bona_fide:,}" for point in points)]
    spoof = [f"{result.spoof_s:.1f} s", *(f"{point.spoof:,}" for point in points)]
    columns: Columns = [
        rate("eer", "EER", 4, states_unit=True).with_values(eers),
        texts("threshold", [f"{threshold:.6g}" for threshold in thresholds]),
        *(metric.with_values(each(agreements, metric.key)) for metric in metrics),
        texts("bona fide", bona_fide),
        texts("spoof", spoof),
    ]
    names = ["any (range)", *(f"{point.hop_s:g} s" for point in points)]
    return [
        f"{name}: {result.recordings:,} recordings",
        *as_lines(Table(names, columns, "frames of")),
        f"F1, IoU, precision and recall of spoof, at the threshold of each line{origin}",
    ]
