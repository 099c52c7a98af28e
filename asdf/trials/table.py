"""The table of trials: an utterance per row, with its label and columns of its corpus.

Invariant: a trial occurs once, with a label of 0 or 1 and a value in every column, and a written
table is read back unchanged.

The columns are separated by TABs: `utterance`, `label` (1 bona fide, 0 spoof), then the columns of
the corpus, by which results are broken down.
"""

from __future__ import annotations

from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath
from asdf.trials.collecting import TrialCollector
from asdf.trials.text_lines import NumberedLines, numbered_lines
from asdf.trials.trial_list import TrialList

HEADER = ("utterance", "label")


def is_trials_file(first_line: str) -> bool:
    """Whether a file that begins with this line is a table of trials."""
    return tuple(first_line.split("\t")[:2]) == HEADER


def read_trials(path: AnyPath) -> TrialList:
    """Read a table of trials, plain or gzipped.

    Raises:
        AsdfError: a row has too few or too many values, a label is not 0 or 1, or an utterance is
            repeated, with file and line; or the header is missing, or there are no trials.
    """
    # Strip only line ends, since a TAB at the end of a line is an empty last column.
    return parse_table(numbered_lines(path, strip="\r\n"), Path(path))


def parse_table(lines: NumberedLines, path: Path) -> TrialList:
    """Read the lines of a table; values at the end of a line may be empty.

    Raises:
        AsdfError: as in `read_trials`.
    """
    number, header = next(lines, (1, ""))
    names = header.split("\t")
    if not is_trials_file(header) or len(set(names)) < len(names):
        raise AsdfError(
            f"{path}, line {number}: a table of trials begins with the names of its columns, "
            f"separated by TABs: utterance, label, and others, each once; found '{header[:120]}'."
        )
    collector = TrialCollector(path, names[2:])
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(names) or values[1] not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: expected {len(names)} values separated by TABs, the "
                f"second one 1 (bona fide) or 0 (spoof), found '{line[:120]}'."
            )
        collector.add(number, values[0], int(values[1]), values[2:])
    return collector.trials()


def write_trials(path: AnyPath, trials: TrialList) -> None:
    """Write a table of trials atomically.

    Raises:
        ValueError: a value contains a TAB or a line break.
    """
    names = [*HEADER, *trials.columns]
    labels = [str(label) for label in trials.labels.tolist()]
    rows = zip(trials.ids, labels, *trials.columns.values(), strict=True)
    with atomic_write(path) as file:
        file.write("\t".join(names) + "\n")
        for values in rows:
            for value in values:
                if "\t" in value or "\n" in value or "\r" in value:
                    raise ValueError(f"a value of {values} contains a TAB or a line break")
            file.write("\t".join(values) + "\n")
