"""RTTM files (NIST, Rich Transcription 2009) with the labels of PartialSpoof and WeDefense.

Invariant: what `write_rttm` writes, `read_rttm` reads back as the same parts.

A line is `SPEAKER NAME CHANNEL START DURATION <NA> <NA> LABEL <NA> <NA>`. An RTTM has no word for
a recording without parts, so readers that know the list of recordings decide about those it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.segments.parts import Segment, clipped
from asdf.segments.timed import Timed, TimedCollector, read_time
from asdf.text import AnyPath
from asdf.trials.text_lines import NumberedLines, numbered_lines

_MICROSECOND = 6


def read_rttm(path: AnyPath) -> dict[str, Timed]:
    """Read an RTTM, plain or gzipped: the parts of each recording by the name that it has there.

    Raises:
        AsdfError: names file and line of a line that does not fit.
    """
    return parse_rttm(numbered_lines(path), Path(path))


def parse_rttm(lines: NumberedLines, path: Path) -> dict[str, Timed]:
    """Read the lines of an RTTM; raises as `read_rttm`."""
    collector = TimedCollector(path)
    for number, line in lines:
        cells = line.split()
        # Comments, and what RTTM has besides turns of speakers.
        if cells[0].startswith(";;") or cells[0] == "SPKR-INFO":
            continue
        # The last two columns came later: older files have eight or nine.
        if not 8 <= len(cells) <= 10 or cells[0] != "SPEAKER":
            raise AsdfError(
                f"{path}, line {number}: expected 'SPEAKER NAME CHANNEL START DURATION <NA> <NA> "
                f"LABEL <NA> <NA>', found {line.strip()[:120]!r}."
            )
        start_s = read_time(cells[3])
        # A microsecond, as the sum of two decimals is rarely a decimal.
        end_s = round(start_s + read_time(cells[4]), _MICROSECOND)
        collector.add(number, cells[1], Segment(start_s, end_s), cells[7])
    return collector.timed()


def write_rttm(path: AnyPath, recordings: Mapping[str, Timed]) -> None:
    """Write the parts of recordings, bona fide ones too, as WeDefense does.

    Args:
        recordings: the parts by the name of the recording; white space in a name becomes '_'.
    """
    with atomic_write(path) as file:
        for name, timed in recordings.items():
            # A name with a space would be two columns.
            word = "_".join(name.split())
            for segment, label in _all_parts(timed):
                file.write(
                    f"SPEAKER {word} 1 {segment.start_s:.{_MICROSECOND}f} "
                    f"{segment.duration_s:.{_MICROSECOND}f} <NA> <NA> {label} <NA> <NA>\n"
                )


def _all_parts(timed: Timed) -> Iterable[tuple[Segment, str]]:
    """Yield the spoofed parts and the bona fide ones between them, in order."""
    reached_s = 0.0
    for segment in clipped(timed.spoofed, timed.end_s):
        if segment.start_s > reached_s:
            yield Segment(reached_s, segment.start_s), "bonafide"
        yield segment, "spoof"
        reached_s = segment.end_s
    if reached_s < timed.end_s:
        yield Segment(reached_s, timed.end_s), "bonafide"
