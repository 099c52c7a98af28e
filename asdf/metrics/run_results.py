"""The results of a run: a row per system or epoch and evaluation set, as text and JSON.

Invariant: `results.txt` and `results.json` hold the same rows, each file is written atomically, and
JSON has all digits, which the text rounds. EERs are fractions except in the text, and each is shown
with how it was scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asdf.metrics.results import Result
from asdf.runs.files import write_text
from asdf.runs.layout import RESULTS_JSON, RESULTS_TEXT
from asdf.tables.plain_text import as_json, as_lines
from asdf.tables.table import Column, Columns, Table, counts, each, rate, texts
from asdf.text import AnyPath
from asdf.trials.how_scored import NOT_KNOWN, HowScored, role_notes


@dataclass(frozen=True)
class MetricValue:
    """The value of `network.validation_metric` on a set, if it is not the EER."""

    name: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Row:
    """A line of a table of results; `scored` holds what is known of the scoring.

    Attributes:
        chosen_by: Metric by which networks were chosen; None for the EER, which `result` has.
    """

    epoch: str
    set: str
    result: Result
    scored: HowScored = NOT_KNOWN
    chosen_by: MetricValue | None = None


AnyRow = Row | tuple[str, str, Result]
"""A row, or the first three values of one."""


def results_table(rows: Sequence[AnyRow]) -> str:
    """Return the rows as aligned text, with a header; it ends with a line break.

    A metric that networks were chosen by has a column after the EER. Notes below name the sets
    whose results are not a test.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, results_table
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> print(results_table([("network 3", "demo-eval", result)]), end="")
        epoch      set         EER %  minDCF  threshold  bona fide  spoof  scored
        network 3  demo-eval  50.000  0.5000     1.0000          2      2  not known
    """
    complete = [_as_row(row) for row in rows]
    columns: Columns = [
        texts("set", each(complete, "set"), is_left=True),
        rate("eer", "EER", 3, states_unit=True).with_values(each(complete, "result.eer")),
    ]
    for name in dict.fromkeys(row.chosen_by.name for row in complete if row.chosen_by):
        chosen = [row.chosen_by for row in complete]
        values = [known.value if known and known.name == name else None for known in chosen]
        columns.append(Column(name, name).with_values(values))
    for key, name in (("min_dcf", "minDCF"), ("eer_threshold", "threshold")):
        columns.append(Column(key, name).with_values(each(complete, f"result.{key}")))
    columns += [
        counts("bona fide", each(complete, "result.bona_fide")),
        counts("spoof", each(complete, "result.spoof")),
        texts("scored", [row.scored.describe() for row in complete], is_left=True),
    ]
    lines = as_lines(Table(each(complete, "epoch"), columns, "epoch"))
    lines += role_notes((row.set, row.scored.role) for row in complete)
    return "\n".join(lines) + "\n"


def write_results(folder: AnyPath, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    """Write `results.txt` and `results.json` into `folder`.

    Each is written atomically, the same bytes for the same rows.

    Returns:
        Rows in the form of results.json.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, write_results
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> [record] = write_results(".", [("network 3", "demo-eval", result)])
        >>> record["set"], record["bona_fide"]
        ('demo-eval', 2)
    """
    records = [_record(_as_row(row)) for row in rows]
    write_text(Path(folder) / RESULTS_JSON, as_json(records))
    write_text(Path(folder) / RESULTS_TEXT, results_table(rows))
    return records


def _as_row(row: AnyRow) -> Row:
    return row if isinstance(row, Row) else Row(*row)


def _record(row: Row) -> dict[str, Any]:
    record = {"epoch": row.epoch, "set": row.set, **asdict(row.result), **row.scored.record()}
    if row.chosen_by is not None:
        record["validation_metric"] = row.chosen_by.name
        record["validation_value"] = row.chosen_by.value
        record["lower_is_better"] = row.chosen_by.lower_is_better
    return record
