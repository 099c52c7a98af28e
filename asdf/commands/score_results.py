"""Outputs of `python -m asdf score` as scores arrive: screen, tables, score file.

Invariant: results are written in the order of the recordings, and no known result is lost, however
the command ends: it is in the journal next to the first output. Tables are rewritten completely
whenever the number of results has doubled, and at the end.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from asdf.arrays import Floats
from asdf.commands.journal import NO_OUTPUT, Entry, Journal, Part, merge_parts, stamp_of
from asdf.commands.outputs import base_of_several, check_overwriting, first_file, is_stream
from asdf.commands.score_recordings import Recordings
from asdf.commands.score_tables import (
    CsvTable,
    JsonTable,
    Row,
    Screen,
    frames_as_windows,
    loudness_of,
    svg_plot,
)
from asdf.errors import AsdfError, UsageError
from asdf.hub import parse_name
from asdf.interchange import find_network
from asdf.runs.files import atomic_write, digest_of, remove_unfinished, write_text
from asdf.scoring.document import Heading, recording_digest
from asdf.scoring.scored import Scored, WindowScore, decide_verdict
from asdf.segments import Timed, write_rttm
from asdf.text import printable
from asdf.trials.how_scored import HowScored
from asdf.trials.scored_files import write_recorded
from asdf.trials.trial_list import bare_name

_MOST_BYTES = 200
# What follows from the command, or is saved in another form.
_NOT_SAVED = {"index", "path", "name", "verdict", "threshold", "extras", "values", "columns"}
# More plots of --segments are not looked at, and each reads its recording again.
_MOST_PLOTS = 100
_SAVED = tuple(each.name for each in fields(Scored) if each.name not in _NOT_SAVED)


def _write_plots(base: Path, plots: Iterable[tuple[str, str]]) -> int:
    """Write plots by the paths of their recordings; return their number.

    A plot is named `<base> - <recording>.svg`, with a number if two would have the same name.
    """
    names: set[str] = set()
    for path, plot in plots:
        first = f"{base.name} - {Path(path).stem}"
        # File systems take 255 bytes, with the suffix of a file that is being written.
        first = name = os.fsencode(first)[:_MOST_BYTES].decode(errors="ignore")
        # Recordings in two folders may have the same name, but need different plots.
        numbers = count(2)
        while name in names:
            name = f"{first} ({next(numbers)})"
        names.add(name)
        write_text(base.parent / f"{name}.svg", plot)
    return len(names)


@dataclass(frozen=True)
class SegmentOutputs:
    """The outputs of --segments: RTTM, JSON with frame scores, plots.

    All have the same parts, those of frames that score below the threshold; `python -m asdf
    evaluate` reads the JSON.

    Attributes:
        base: Common path of the outputs, without suffix.
        threshold: Score below which frames are marked.
    """

    base: Path
    threshold: float

    @property
    def files(self) -> tuple[Path, Path]:
        """The RTTM, and the JSON."""
        # with_suffix would not do: a name may contain a dot, as in 'call.2'.
        name = self.base.name
        return self.base.with_name(f"{name}.rttm"), self.base.with_name(f"{name}.json")

    def write(self, network: str, rows: Callable[[], Iterator[Row]]) -> None:
        """Write RTTM and JSON.

        Args:
            rows: Function that yields the rows of all recordings, from the first one at each call.
        """
        by_path = {}
        rttm, frame_scores = self.files
        with atomic_write(frame_scores) as file:
            heading = json.dumps({"network": network, "threshold": self.threshold}, indent=1)
            file.write(heading.removesuffix("\n}") + ',\n "recordings": [')
            between = "\n"
            for row in rows():
                frames = row.result.frames
                if frames is None:
                    continue
                entry = {
                    "name": row.result.name,
                    "hop_s": frames.hop_s,
                    "duration_s": frames.seconds,
                    "spoofed": [list(segment) for segment in frames.marked],
                    "scores": frames.scores.tolist(),
                }
                file.write(between + json.dumps(entry))
                between = ",\n"
                by_path[row.result.name] = Timed(frames.marked, frames.seconds)
            file.write("\n ]\n}\n")
        # Bare names, as in corpora, or paths if two are equal.
        bare = {bare_name(path): timed for path, timed in by_path.items()}
        write_rttm(rttm, bare if len(bare) == len(by_path) else by_path)

    def plots(self, rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
        """Yield the path and the plot of each recording."""
        for row in rows:
            name, path, frames = row.result.name, row.result.path, row.result.frames
            if frames is None or path is None:
                continue
            # The recording may be gone since: the scores are drawn without it.
            loudness: Floats = np.zeros(1)
            with suppress(AsdfError, OSError):
                loudness = loudness_of(path, frames.seconds)
            drawn = frames_as_windows(frames), name, "frame score", self.threshold
            yield name, svg_plot(*drawn, loudness, frames.marked)


@dataclass(frozen=True)
class Outputs:
    """What a command writes; None is not requested. A part of the work writes its journal alone."""

    csv: Path | None
    json: Path | None
    scores: Path | None
    segments: SegmentOutputs | None
    part: str | None
    merge: bool


def segment_outputs(path: Path, threshold: float, others: Sequence[Path | None]) -> SegmentOutputs:
    """Return the outputs of --segments: files, or 'segments' in a folder.

    Raises:
        UsageError: they cannot be written there, or another output has the same path.
    """
    base = base_of_several("--segments", path, "segments", (".rttm", ".json"))
    outputs = SegmentOutputs(base, threshold)
    check_overwriting((), [*outputs.files, *others])
    return outputs


class Results:
    """Collects results as they arrive and outputs them in order.

    Attributes:
        failed: Number of recordings without a score, among those that were output.
    """

    def __init__(
        self,
        recordings: Recordings,
        heading: Heading,
        outputs: Outputs,
        work: Mapping[str, Any],
        screen: TextIO | None,
        stdin_path: str = "",
    ) -> None:
        """Resume from what an earlier command with the same outputs saved.

        Args:
            work: Facts that the scores depend on, besides the network's file and the recordings.
            screen: Stream for the lines; None: they are not shown.
            stdin_path: Path of the copy of standard input.

        Raises:
            UsageError: parts are incomplete.
            AsdfError: an output cannot be written.
        """
        self._recordings = recordings
        self._heading = heading
        self._scores = outputs.scores
        self._segments = outputs.segments
        self._stdin_path = stdin_path
        kinds: tuple[tuple[Path | None, type[CsvTable] | type[JsonTable]], ...]
        kinds = (outputs.csv, CsvTable), (outputs.json, JsonTable)
        self._tables = [(path, kind) for path, kind in kinds if path is not None]
        self._has_digests = outputs.json is not None
        self._screen = Screen(heading, screen, max(map(len, recordings.paths), default=0))
        self._part = None if outputs.part is None else Part.parse(outputs.part)
        self._mine = (self._part or Part(1, 1)).indices(len(recordings))
        self._next = self._mine.start
        self._next_writing = 1
        # Only a score file needs all of them at the end.
        self._raw = array("d", [0.0]) * (len(recordings) if outputs.scores else 0)
        self.failed = 0
        self._merged: list[Path] = []
        self._entries = self._open_entries(outputs, work)
        self._streams = ExitStack()
        self._live: list[tuple[IO[str], CsvTable | JsonTable]] = []
        for path, kind in self._tables:
            # A pipe gets each row as it is known, because it cannot be rewritten.
            if is_stream(path):
                file = self._streams.enter_context(atomic_write(path))
                self._live.append((file, kind(file, heading)))

    def _open_entries(self, outputs: Outputs, work: Mapping[str, Any]) -> Journal:
        written = [outputs.csv, outputs.json, outputs.scores]
        if self._segments is not None:
            written += self._segments.files
        output = first_file(written)
        total = len(self._recordings)
        if output is None:
            if outputs.merge or self._part is not None:
                raise UsageError(NO_OUTPUT)
            return Journal(None, work, total, self._still_holds)
        network = self._heading.network
        # A commit on the hub never changes.
        if parse_name(network) is None:
            network = digest_of(find_network(network))
        # Identified by content, so that a network that was trained further is scored anew.
        work = {**work, "network": network, "recordings": self._recordings.digest()}
        if outputs.merge:
            self._merged = merge_parts(output, work, total)
        part = "" if self._part is None else self._part.label()
        journal = Journal(output, work, total, self._still_holds, part)
        for path in filter(None, written):
            if not is_stream(path):
                remove_unfinished(path.resolve().parent, output=path.resolve().name)
        if journal.known:
            self._screen.say(
                f"{journal.known} of {len(self._mine)} recordings were scored before: "
                "resuming from there"
            )
        elif journal.begins_anew:
            self._screen.say(
                f"results for {output} from a different command were found: starting again"
            )
        return journal

    def _still_holds(self, entry: Entry) -> bool:
        """Whether an entry is still valid; failed or changed recordings are scored again."""
        path = self._recordings.paths[entry["index"]]
        return not entry["error"] and entry["stamp"] == stamp_of(path)

    @property
    def done(self) -> int:
        """The number of results."""
        return self._entries.known

    @property
    def remaining(self) -> int:
        """The number of recordings that this process still has to score."""
        return len(self._mine) - self.done

    def is_known(self, index: int) -> bool:
        """Whether the recording at `index` has a result already."""
        return index in self._entries or index not in self._mine

    def add(self, result: Scored, windows: list[WindowScore]) -> None:
        """Save the result of a recording, and output all results that are due.

        Raises:
            AsdfError: it cannot be written.
        """
        entry: Entry = {name: getattr(result, name) for name in _SAVED}
        entry["lowest"] = result.lowest.entry() if result.lowest else None
        entry["over_time"] = [window.entry() for window in windows]
        entry["values"] = {}
        for column in self._heading.columns:
            value = result.values.get(column.key)
            if value is not None:
                entry["values"][column.key] = column.saved(value)
        path = self._recordings.paths[result.index]
        if self._has_digests:
            # Of a file that cannot be read, the entry states so already.
            with suppress(AsdfError):
                entry["sha256"] = recording_digest(path)
        entry["stamp"] = stamp_of(path)
        self._entries.add(result.index, entry)
        self.put_out()

    def put_out(self) -> None:
        """Show the next results, up to the first one that is not known yet."""
        while self._next < self._mine.stop and self._next in self._entries:
            row = self._row(self._next)
            self._screen.show(row)
            for file, table in self._live:
                table.add(row)
                # A program at the other end of the pipe gets each row at once.
                file.flush()
            self.failed += bool(row.result.error)
            if self._raw and row.result.raw is not None:
                self._raw[self._next] = row.result.raw
            self._next += 1
        if self._entries.path is None and self.done == self._next - self._mine.start:
            # Without an output no entry is read again, and a list may have millions.
            self._entries.clear()
        if self.done >= self._next_writing:
            # Doubling limits the total cost of rewriting to twice the last table.
            self._next_writing = 2 * self.done
            self._write_tables(complete=False)

    def stop(self) -> str:
        """Write the known results, and leave the rest to the same command.

        Returns:
            Instructions on how to continue.
        """
        self._write_the_rest(complete=False)
        if self._entries.path is not None:
            return "the same command resumes from there"
        return "with --csv or --json the same command could resume from there"

    def finish(self, scored: HowScored) -> None:
        """Write the outputs, show the closing remarks, and remove the journal.

        For a part, the journal is the output.
        """
        say = self._screen.say
        self._write_the_rest(complete=True)
        if self._part is not None:
            self._screen.end()
            say(
                f"part {self._part.number}/{self._part.of} is done: {len(self._mine)} recordings. "
                "When all parts are done, the same command with --merge instead of --part writes "
                "the outputs."
            )
            return
        if self._scores is not None and self.failed:
            say(
                f"{self._scores} was not written, because a score file without some trials would "
                "have another EER. Remove the failed recordings from the list, or repair them."
            )
        elif self._scores is not None:
            # It imports torch, which a graph does without.
            from asdf.interchange import network_digest

            scored = replace(scored, network=network_digest(self._heading.network))
            # Raw scores, even for a calibrated network, because calibrations are fitted on them.
            listed = self._recordings
            write_recorded(self._scores, listed.names, listed.labels, self._raw, scored)
        self._screen.end()
        if self._heading.decision:
            say(self._heading.decision)
        if self._heading.calibration is not None:
            say(self._heading.calibration["origin"])
        if self.failed:
            say(f"{self.failed} of {len(self._recordings)} recordings could not be scored")
        files = [path for path, _ in self._tables if not is_stream(path)]
        if files and (drawn := _write_plots(files[0].with_suffix(""), self._window_plots())):
            say(f"plots next to {files[0]}: {drawn}")
        if self._segments is not None:
            self._segments.write(self._heading.network, self._known_rows)
            plots = islice(self._segments.plots(self._known_rows()), _MOST_PLOTS)
            drawn = _write_plots(self._segments.base, plots)
            say(f"written to {' and '.join(map(str, self._segments.files))}, with {drawn} plots")
        # Removed last: until the outputs are written, it is the only copy of the scores.
        self._entries.remove()
        for path in self._merged:
            path.unlink(missing_ok=True)
        self._screen.summarise()

    def close(self) -> None:
        """Close the files; the journal is kept, unless the work was finished."""
        self._streams.close()
        self._entries.close()

    def _row(self, index: int) -> Row:
        entry = self._entries[index]
        recording = self._recordings[index]
        known = {name: entry[name] for name in _SAVED}
        known["error"] = self._as_field(entry["error"])
        if entry["lowest"] is not None:
            known["lowest"] = WindowScore(**entry["lowest"])
        columns = {each.key: each for each in self._heading.columns if each.key in entry["values"]}
        result = Scored(
            index,
            recording.path,
            name=self._as_field(str(recording.path)),
            threshold=self._heading.threshold,
            values={key: each.restored(entry["values"][key]) for key, each in columns.items()},
            columns={key: type(each) for key, each in columns.items()},
            **known,
        )
        windows = [WindowScore(**window) for window in entry["over_time"]]
        result = replace(result, verdict=decide_verdict(result))
        return Row(recording.label, result, windows, entry.get("sha256"))

    def _as_field(self, text: str) -> str:
        """Turn a text with a path in it into one field of a line; file names may have any bytes."""
        if self._stdin_path:
            text = text.replace(self._stdin_path, "-")
        return printable(text, one_line=True)

    def _known_rows(self) -> Iterator[Row]:
        return (self._row(index) for index in self._mine if index in self._entries)

    def _window_plots(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the plot of each recording with scores over time."""
        kind = "LLR" if self._heading.kind == "llr" else self._heading.kind
        for row in self._known_rows():
            if row.windows:
                name, threshold = row.result.name, self._heading.threshold
                yield name, svg_plot(row.windows, name, kind, threshold)

    def _write_tables(self, complete: bool) -> None:
        """Write all known results to the tables that are files; a part has none."""
        for path, kind in self._tables if self._part is None else ():
            if not is_stream(path):
                with atomic_write(path) as file:
                    table = kind(file, self._heading)
                    for row in self._known_rows():
                        table.add(row)
                    table.end(complete)

    def _write_the_rest(self, complete: bool) -> None:
        """Write the tables for the last time, and end those that were written as rows came."""
        self._write_tables(complete)
        for _, table in self._live:
            table.end(complete)
        self._live = []
        self._streams.close()
