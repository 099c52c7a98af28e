"""Text files of spoofed parts: those of HAD and LlamaPartialSpoof, and plain ones.

A line of the first two is a recording, with all of its parts:

    HAD_train_fake_00000001 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0
    dev01-yourtts-partial-cf_8842_304647_000034_000001 1.9740 spoof 0.0000-0.8510-bonafide 0.8510-1.1910-spoof

A line of a plain file is a part, `NAME START END LABEL`, in seconds:

    call-17.wav 0.00 1.43 bonafide
    call-17.wav 1.43 2.02 spoof

Invariant: a line's own label and its parts agree: a recording is bona fide if none of them is
spoofed.
"""  # noqa: E501

from __future__ import annotations

import math
from pathlib import Path

from asdf.errors import AsdfError
from asdf.segments.parts import Segment
from asdf.segments.timed import Timed, TimedCollector, is_spoof_label, read_time
from asdf.text import AnyPath
from asdf.trials.text_lines import NumberedLines, numbered_lines, peek

# The labels of whole recordings: 1 and 0 are HAD's.
_LABELS = {"1": False, "0": True}


def read_text(path: AnyPath) -> dict[str, Timed]:
    """Read a text file of HAD or LlamaPartialSpoof, or of plain lines; it may be gzipped.

    Raises:
        AsdfError: names file and line of a line that does not fit or contradicts itself.
    """
    return parse_text(numbered_lines(path), Path(path))


def parse_text(lines: NumberedLines, path: Path) -> dict[str, Timed]:
    """Read the lines of a text file, in the format of the first; raises as `read_text`."""
    first, lines = peek(lines)
    if _split_plain(first) is not None:
        return _parse_plain(lines, path)
    collector = TimedCollector(path)
    stated: dict[str, tuple[int, bool]] = {}
    for number, line in lines:
        name, label, parts = _split_line(line.split())
        is_spoof = _LABELS.get(label, is_spoof_label(label))
        if is_spoof is None or not parts:
            raise AsdfError(
                f"{path}, line {number}: expected 'NAME START-END-T/START-END-F/... 0|1' as HAD "
                "has it, or 'NAME SECONDS bonafide|spoof START-END-bonafide START-END-spoof ...' "
                "as LlamaPartialSpoof does, or 'NAME START END LABEL' with times in seconds, found "
                f"{line.strip()[:120]!r}."
            )
        if name in stated:
            raise AsdfError(
                f"{path}, line {number}: {name!r} stands in it before. Every recording has one "
                "line: remove the repeated ones."
            )
        stated[name] = (number, is_spoof)
        for part in parts:
            times, _, part_label = part.rpartition("-")
            start, _, end = times.partition("-")
            segment = Segment(read_time(start), read_time(end))
            collector.add(number, name, segment, part_label)
    recordings = collector.timed()
    for name, (number, is_spoof) in stated.items():
        if is_spoof != bool(recordings[name].spoofed):
            label = "spoof, and none" if is_spoof else "bona fide, and one"
            raise AsdfError(
                f"{path}, line {number}: {name!r} is labelled {label} of its parts is spoofed. Is "
                "the file damaged?"
            )
    return recordings


def _parse_plain(lines: NumberedLines, path: Path) -> dict[str, Timed]:
    """Read lines `NAME START END LABEL`, in any order."""
    collector = TimedCollector(path)
    for number, line in lines:
        part = _split_plain(line)
        if part is None:
            raise AsdfError(
                f"{path}, line {number}: expected 'NAME START END LABEL' with times in seconds, as "
                f"in the first line, found {line.strip()[:120]!r}."
            )
        name, segment, label = part
        collector.add(number, name, segment, label)
    return collector.timed()


def _split_plain(line: str) -> tuple[str, Segment, str] | None:
    """Return name, part and label of a line `NAME START END LABEL`; None for any other line."""
    # From the right: a name may hold spaces.
    cells = line.rsplit(None, 3)
    if len(cells) != 4:
        return None
    segment = Segment(read_time(cells[1]), read_time(cells[2]))
    if math.isnan(segment.start_s) or math.isnan(segment.end_s):
        return None
    return cells[0].strip(), segment, cells[3]


def _split_line(cells: list[str]) -> tuple[str, str, list[str]]:
    """Return the name, the label and the parts of a line; no parts where it is of neither file."""
    if len(cells) == 3 and cells[2] in _LABELS:
        return cells[0], cells[2], cells[1].split("/")
    if len(cells) >= 4:
        return cells[0], cells[2], cells[3:]
    return "", "", []
