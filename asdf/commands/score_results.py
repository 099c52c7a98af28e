"""Outputs of `python -m asdf score` as scores arrive: screen, tables, score file.

Invariant: results are written in the order of the recordings, and no known result is lost, however
the command ends: it is in the journal next to the first output. Tables are rewritten completely
whenever the number of results has doubled, and at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO

from asdf.commands.outputs import first_file, is_stream
from asdf.commands.score_files import CsvTable, JsonTable, Row, SegmentOutputs, write_pictures
from asdf.commands.score_journal import Entry, Journal, Part, Passing, merge_parts, stamp_of
from asdf.commands.score_options import NO_OUTPUT
from asdf.commands.score_recordings import Recordings
from asdf.commands.score_screen import Screen
from asdf.errors import AsdfError, UsageError
from asdf.hub import parse_name
from asdf.interchange import find_network
from asdf.runs.files import atomic_write, digest_of, remove_unfinished
from asdf.scoring.document import Heading, recording_digest
from asdf.scoring.scored import Scored, WindowScore, decide_verdict
from asdf.text import printable
from asdf.trials.how_scored import HowScored
from asdf.trials.scored_files import write_recorded

# Values that follow from the command are not saved, such as names and verdicts.
_SAVED_FIELDS = (
    "score",
    "raw",
    "error",
    "seconds",
    "seconds_scored",
    "windows",
    "speech_share",
    "lowest",
    "level_dbfs",
    "offset",
    "remark",
    "judged",
)


@dataclass(frozen=True)
class Outputs:
    """The paths of the requested outputs; None for outputs that were not requested.

    Attributes:
        part: Part of the recordings to score, such as '3/40', and to save for a merge.
        merges: Whether all parts are already scored, and are merged.
    """

    csv: Path | None
    json: Path | None
    scores: Path | None
    segments: SegmentOutputs | None = None
    part: str | None = None
    merges: bool = False

    def tables(self) -> list[tuple[Path, type[CsvTable] | type[JsonTable]]]:
        """Return paths and kinds of the tables."""
        kinds: list[tuple[Path | None, type[CsvTable] | type[JsonTable]]]
        kinds = [(self.csv, CsvTable), (self.json, JsonTable)]
        return [(path, kind) for path, kind in kinds if path is not None]

    def paths(self) -> list[Path]:
        """Return the paths of all outputs except plots."""
        paths = [self.csv, self.json, self.scores]
        if self.segments is not None:
            paths += [self.segments.rttm, self.segments.json]
        return [path for path in paths if path is not None]


class Results:
    """Collects results as they arrive and outputs them in order.

    Attributes:
        done: Number of results.
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
        self._merged: list[Path] = []
        self._part = None if outputs.part is None else Part.parse(outputs.part)
        self._mine = (self._part or Part(1, 1)).indices(len(recordings))
        self._heading = heading
        self._outputs = outputs
        self._screen = Screen(heading, screen, max(map(len, recordings.paths), default=0))
        self._stdin_path = stdin_path
        self._next = self._mine.start
        self._next_writing = 1
        # Only a score file needs all of them at the end.
        self._raw = array("d", [0.0]) * (len(recordings) if outputs.scores else 0)
        self.failed = 0
        self._entries = self._open_entries(work)
        self._streams = ExitStack()
        self._live: list[tuple[IO[str], CsvTable | JsonTable]] = []
        for path, kind in outputs.tables():
            # A pipe gets each row as it is known, because it cannot be rewritten.
            if is_stream(path):
                file = self._streams.enter_context(atomic_write(path))
                self._live.append((file, kind(file, heading)))

    def _open_entries(self, work: Mapping[str, Any]) -> Journal | Passing:
        output = first_file(self._outputs.paths())
        if output is None:
            if self._outputs.merges or self._part is not None:
                raise UsageError(NO_OUTPUT)
            return Passing()
        network = self._heading.network
        # A commit on the hub never changes.
        if parse_name(network) is None:
            network = digest_of(find_network(network))
        # Identified by content, so that a network that was trained further is scored anew.
        work = {**work, "network": network, "recordings": self._recordings.digest()}
        if self._outputs.merges:
            self._merged = merge_parts(output, work, len(self._recordings))
        part = "" if self._part is None else self._part.label()
        journal = Journal(output, work, len(self._recordings), self._still_holds, part)
        for path in self._outputs.paths():
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
        return self._entries.known

    @property
    def remaining(self) -> int:
        """The number of recordings that this process still has to score."""
        return len(self._mine) - self.done

    @property
    def needs_frames(self) -> bool:
        """Whether results must include the scores of frames."""
        return self._outputs.segments is not None

    def is_known(self, index: int) -> bool:
        """Whether the recording at `index` has a result already."""
        return index in self._entries or index not in self._mine

    def add(self, index: int, result: Scored, windows: list[WindowScore]) -> None:
        """Save the result of a recording, and output all results that are due.

        Raises:
            AsdfError: it cannot be written.
        """
        entry: Entry = {name: getattr(result, name) for name in _SAVED_FIELDS}
        entry["lowest"] = result.lowest.entry() if result.lowest else None
        entry["over_time"] = [window.entry() for window in windows]
        entry["values"] = {}
        for column in self._heading.columns:
            value = result.values.get(column.key)
            if value is not None:
                entry["values"][column.key] = column.saved(value)
        path = self._recordings.paths[index]
        if self._outputs.json is not None:
            # Of a file that cannot be read, the entry states so already.
            with suppress(AsdfError):
                entry["sha256"] = recording_digest(path)
        entry["stamp"] = stamp_of(path)
        self._entries.add(index, entry)
        self.put_out()

    def put_out(self) -> None:
        """Show the next results, up to the first one that is not known yet."""
        while self._next < self._mine.stop and self._next in self._entries:
            index = self._next
            # Read once, because `Passing` removes an entry on reading.
            row = self._row(index)
            self._next += 1
            self._screen.show(row)
            for file, table in self._live:
                table.add(row)
                # A program at the other end of the pipe gets each row at once.
                file.flush()
            self.failed += bool(row.result.error)
            if self._raw and row.result.raw is not None:
                self._raw[index] = row.result.raw
        if self.done >= self._next_writing:
            # Doubling limits the total cost of rewriting to twice the last table.
            self._next_writing = 2 * self.done
            self._write_tables(complete=False)

    def stop(self) -> str:
        """Write the known results, and leave the rest to the same command.

        Returns:
            Instructions on how to continue.
        """
        self._write_tables(complete=False)
        self._end_streams(complete=False)
        if isinstance(self._entries, Journal):
            return "the same command resumes from there"
        return "with --csv or --json the same command could resume from there"

    def finish(self, scored: HowScored) -> None:
        """Write the outputs, show the closing remarks, and remove the journal.

        For a part, the journal is the output.
        """
        if self._part is not None:
            self._end_streams(complete=True)
            self._screen.end()
            self._screen.say(
                f"part {self._part.number}/{self._part.of} is done: {len(self._mine)} recordings. "
                "When all parts are done, the same command with --merge instead of --part writes "
                "the outputs."
            )
            return
        self._write_tables(complete=True)
        self._end_streams(complete=True)
        if self._outputs.scores:
            self._write_scores(self._outputs.scores, scored)
        self._screen.end()
        if self._heading.decision:
            self._screen.say(self._heading.decision)
        if self._heading.calibration is not None:
            self._screen.say(self._heading.calibration["origin"])
        if self.failed:
            self._screen.say(
                f"{self.failed} of {len(self._recordings)} recordings could not be scored"
            )
        if isinstance(self._entries, Journal):
            tables = [path for path, _ in self._outputs.tables() if not is_stream(path)]
            if tables:
                count = write_pictures(tables[0], self._heading, self._known_rows())
                if count:
                    self._screen.say(f"plots next to {tables[0]}: {count}")
            segments = self._outputs.segments
            if segments is not None:
                segments.write(self._heading.network, self._known_rows)
                count = segments.write_pictures(self._known_rows())
                written = f"written to {segments.rttm} and {segments.json}"
                self._screen.say(f"{written}, with {count} plots")
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
        values = {name: entry[name] for name in _SAVED_FIELDS}
        values["error"] = self._as_field(entry["error"])
        if entry["lowest"] is not None:
            values["lowest"] = WindowScore(**entry["lowest"])
        found = {}
        columns = {}
        for column in self._heading.columns:
            if column.key in entry["values"]:
                found[column.key] = column.restored(entry["values"][column.key])
                columns[column.key] = type(column)
        result = Scored(
            index,
            recording.path,
            name=self._as_field(str(recording.path)),
            threshold=self._heading.threshold,
            values=found,
            columns=columns,
            **values,
        )
        result = replace(result, verdict=decide_verdict(result))
        windows = [WindowScore(**window) for window in entry["over_time"]]
        return Row(recording.label, result, windows, entry.get("sha256"))

    def _as_field(self, text: str) -> str:
        """Turn a text with a path in it into one field of a line; file names may have any bytes."""
        if self._stdin_path:
            text = text.replace(self._stdin_path, "-")
        return printable(text, one_line=True)

    def _known_rows(self) -> Iterator[Row]:
        for index in range(len(self._recordings)):
            if index in self._entries:
                yield self._row(index)

    def _write_tables(self, complete: bool) -> None:
        # Without a file nothing is rewritten, and entries are dropped once shown.
        if not isinstance(self._entries, Journal) or self._part is not None:
            return
        for path, kind in self._outputs.tables():
            if not is_stream(path):
                with atomic_write(path) as file:
                    table = kind(file, self._heading)
                    for row in self._known_rows():
                        table.add(row)
                    table.end(complete)

    def _end_streams(self, complete: bool) -> None:
        for _, table in self._live:
            table.end(complete)
        self._live = []
        self._streams.close()

    def _write_scores(self, path: Path, scored: HowScored) -> None:
        if self.failed:
            self._screen.say(
                f"{path} was not written, because a score file without some trials would have "
                "another EER. Remove the failed recordings from the list, or repair them."
            )
            return
        from asdf.interchange import network_digest

        scored = replace(scored, network=network_digest(self._heading.network))
        # Raw scores, even for a calibrated network, because calibrations are fitted on them.
        listed = self._recordings
        write_recorded(path, listed.names, listed.labels, self._raw, scored)
