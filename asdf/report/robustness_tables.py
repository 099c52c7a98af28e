"""Results of robustness studies on the page: a table per system and set.

Invariant: the numbers are those in the study's results.json in the run; nothing is computed here. A
damaged file becomes a finding, and the rest is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from asdf.metrics.intervals import Interval
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.table import Column, Columns, Table, Value, rate, texts
from asdf.tasks.studies.measured import ReportFinding
from asdf.text import p_value_text
from asdf.trials.run_folder import RunFolder


def robustness_tables(
    name: str, run: RunFolder, networks: Collection[str] | None
) -> tuple[list[PageTable], list[ReportFinding]]:
    """Return a table per network and set of a run, and findings on files that cannot be read.

    Args:
        name: Name of the run on the page.
        networks: Networks to show; None: all networks of the last report.
    """
    tables: list[PageTable] = []
    findings = []
    for path in run.layout.robustness_records():
        try:
            tables += _tables_of(name, path, networks)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{path.parent.name}/{path.name} is damaged ({error!r}): run stage 3 again."
            findings.append(ReportFinding(name, "error", message))
    return tables, findings


def _tables_of(name: str, path: Path, networks: Collection[str] | None) -> list[PageTable]:
    record = json.loads(path.read_text(encoding="utf-8"))
    by_network: dict[str, list[Mapping[str, Any]]] = {}
    for row in record["results"]:
        if networks is None or row["network"] in networks:
            by_network.setdefault(row["network"], []).append(row)
    tables = []
    for network, rows in by_network.items():
        trials = record["bona_fide"] + record["spoof"]
        caption = (
            f"{name} {network} on {trials:,} degraded recordings of {path.parent.name}, with 95 % "
            f"intervals over {record['intervals_over']}"
        )
        tables.append(as_page(_table(rows), caption))
    return tables


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    over = {"trials": "95 %"}
    columns: Columns = [
        (rate("eer", "EER %", over=over), _values(rows, "eer")),
        (
            rate("eer_change", "change", over=over, lower_is_better=None),
            _values(rows, "eer_change"),
        ),
        texts("p", [_p_text(row.get("eer_p_holm")) for row in rows]),
        (rate("miss", "miss %"), _values(rows, "miss", has_bounds=False)),
        (rate("false_alarm", "false alarm %"), _values(rows, "false_alarm", has_bounds=False)),
        (Column("min_dcf", "minDCF"), _values(rows, "min_dcf", has_bounds=False)),
    ]
    return Table([_label(row) for row in rows], columns, "condition")


def _label(row: Mapping[str, Any]) -> str:
    if row.get("grade") is None:
        return str(row["condition"])
    return f"{row['degradation']} {row['grade']:g} {row['unit']}"


def _values(rows: Sequence[Mapping[str, Any]], key: str, *, has_bounds: bool = True) -> list[Value]:
    values = []
    for row in rows:
        if row.get(key) is None:
            values.append(Value())
            continue
        number = float(row[key])
        interval = Interval(number, float(row[f"{key}_low"]), float(row[f"{key}_high"]))
        values.append(Value(number, {"trials": interval} if has_bounds else {}))
    return values


def _p_text(p_value: float | None) -> str:
    return "-" if p_value is None else p_value_text(p_value).removeprefix("= ")
