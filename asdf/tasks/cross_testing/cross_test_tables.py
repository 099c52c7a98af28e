"""Cross-tests as text, LaTeX, CSV and JSON.

Invariant: all formats show one matrix, with a row per set of spoofs and a column per set of genuine
speech, followed by the maximum and the mean of each row and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asdf.metrics.intervals import Interval
from asdf.metrics.results import FEW
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.comma_separated import as_csv
from asdf.tables.labels import labels_of
from asdf.tables.plain_json import as_json, bounds_record
from asdf.tables.plain_text import as_text
from asdf.tables.table import Columns, Table, Value, each, rate
from asdf.tasks.cross_testing.cross_test import CrossTest, Extent, TrialSet
from asdf.text import and_more, as_facts

SOURCE = "bona fide cross-testing (Kwok et al., Interspeech 2025)"
_LABEL = 18
_SHOWN = 5
_CSV = ("system", "kind", "spoof", "genuine", "eer", "low", "high", "over", "spoofs", "bona_fide")
_ENDS = ("highest", "mean")


def cross_test_table(
    result: CrossTest,
    notes: Sequence[str] = (),
    *,
    all_intervals: bool = True,
) -> Table:
    """Return the matrix of EERs, followed by its maxima and means.

    Args:
        all_intervals: Whether all pairs have intervals; False: only maxima and means have them.
    """
    columns: Columns = []
    names = each(result.genuine, "name")
    for index, label in enumerate(labels_of(names, _LABEL)):
        values = []
        for row in result.pairs:
            pair = row[index]
            words = f"{pair.genuine.trials:,} bona fide and {pair.spoof.trials:,} spoof trials"
            if pair.few:
                words += f"; fewer than {FEW} of a class: too few to say anything"
            value = _value(pair.eer)
            intervals = value.intervals if all_intervals else {}
            css = "few" if pair.few else ""
            values.append(Value(value.number, intervals, title=words, css=css))
        values += _ends(result.by_genuine[index])
        column = rate(names[index], label, whole_name=names[index], is_shaded=True)
        columns.append((column, values))
    corners = {
        "highest": [_value(result.overall.highest), Value()],
        "mean": [_value(result.mean_of_highest), _value(result.overall.mean)],
    }
    for end, corner in corners.items():
        values = list(map(_value, each(result.by_spoof, end)))
        columns.append((rate(end, is_shaded=True), [*values, *corner]))
    rows = each(result.spoofs, "name")
    labels = [*labels_of(rows, _LABEL), *_ENDS]
    return Table([*rows, *_ENDS], columns, "spoofs", notes, labels)


def _ends(extent: Extent) -> list[Value]:
    return [_value(extent.highest), _value(extent.mean)]


def _value(interval: Interval) -> Value:
    # Without replicates, both bounds are the value itself.
    known = interval.high > interval.low
    return Value(interval.value, {"trials": interval} if known else {})


def cross_test_text(
    name: str,
    result: CrossTest,
) -> str:
    """Return all results of one system, without a final line break."""
    worst = max(result.all_pairs, key=lambda pair: pair.eer.value)
    percent = rate("eer")
    rows = {"spoofs": _sets_words(result.by[0], result.spoofs)}
    rows["genuine"] = _sets_words(result.by[1], result.genuine)
    for title, interval in (
        ("mean EER", result.overall.mean),
        ("highest EER", result.overall.highest),
        ("mean of highest", result.mean_of_highest),
    ):
        shown = f"{percent.format(interval.value)} %"
        if result.over:
            over = interval.describe_groups(result.over)
            shown += percent.format_intervals({over: interval})
        rows[title] = shown
    rows["highest EER"] += f"   {worst.spoof.name} against {worst.genuine.name}"
    rows["mean of highest"] += "   for each genuine set, over spoofs"
    lines = [*as_facts(f"{name}: {SOURCE}", rows), "", "EER %", *as_text(cross_test_table(result))]
    return "\n".join(lines)


def _sets_words(
    column: str,
    sets: Sequence[TrialSet],
) -> str:
    trials = each(sets, "trials")
    sizes = f"{min(trials):,}"
    if max(trials) > min(trials):
        sizes += f"-{max(trials):,}"
    return f"{len(sets)} sets by {column}, of {sizes} trials"


def remarks(result: CrossTest) -> list[str]:
    """Return sentences on the limitations of the numbers; [] if there are none."""
    sentences = []
    pairs = result.all_pairs
    few = sum(each(pairs, "few"))
    if few:
        sets = [*result.spoofs, *result.genuine]
        small = [known.name for known in sets if known.trials < FEW]
        sentences.append(
            f"{few} of {len(pairs)} EERs are of fewer than {FEW} trials of a class "
            f"({and_more(small, _SHOWN)}): they count in the maxima and means, and may be chance."
        )
    for number, kind, column in zip(
        result.left_out, ("spoof", "bona fide"), result.by, strict=True
    ):
        if number:
            sentences.append(f"{number:,} {kind} trials have no {column} and are left out.")
    return sentences


def cross_test_latex(
    name: str,
    result: CrossTest,
) -> str:
    """Return the matrix for a paper."""
    notes = [
        f"{name}: {SOURCE}; EER in per cent, spoofs by {result.by[0]}, genuine by {result.by[1]}"
    ]
    if result.over:
        notes.append(f"in brackets: 95 % intervals over {result.over}")
    # The intervals of all pairs would make a table of three columns wider than a page.
    table = cross_test_table(result, [*notes, *remarks(result)], all_intervals=False)
    return PACKAGES + as_latex(table)


def cross_test_csv(
    name: str,
    result: CrossTest,
) -> str:
    """Return a row for each pair, then for each maximum and mean."""
    rows: list[dict[str, Any]] = []

    def add(
        kind: str,
        eer: Interval,
        spoof: TrialSet | None,
        genuine: TrialSet | None,
    ) -> None:
        row: dict[str, Any] = {"system": name, "kind": kind, "over": result.over}
        if spoof is not None:
            row["spoof"] = spoof.name
            row["spoofs"] = spoof.trials
        if genuine is not None:
            row["genuine"] = genuine.name
            row["bona_fide"] = genuine.trials
        rows.append({**row, "eer": eer.value, "low": eer.low, "high": eer.high})

    for pair in result.all_pairs:
        add("pair", pair.eer, pair.spoof, pair.genuine)
    for kind in _ENDS:
        for spoof, extent in zip(result.spoofs, result.by_spoof, strict=True):
            add(kind, getattr(extent, kind), spoof, None)
        for genuine, extent in zip(result.genuine, result.by_genuine, strict=True):
            add(kind, getattr(extent, kind), None, genuine)
        add(kind, getattr(result.overall, kind), None, None)
    add("mean of highest", result.mean_of_highest, None, None)
    return as_csv(_CSV, rows)


def cross_test_json(
    name: str,
    result: CrossTest,
) -> str:
    """Return all numbers with all digits."""
    pairs = []
    for pair in result.all_pairs:
        counts = {"spoofs": pair.spoof.trials, "bona_fide": pair.genuine.trials, "few": pair.few}
        sets = {"spoof": pair.spoof.name, "genuine": pair.genuine.name}
        pairs.append({**sets, **counts, **_record(pair.eer, result.over)})
    record = {
        "system": name,
        "spoofs_by": result.by[0],
        "genuine_by": result.by[1],
        "intervals_over": result.over or None,
        "pairs": pairs,
        "by_spoof": _by_set(result.spoofs, result.by_spoof, result.over),
        "by_genuine": _by_set(result.genuine, result.by_genuine, result.over),
        "overall": _extent_record(result.overall, result.over),
        "mean_of_highest": _record(result.mean_of_highest, result.over),
        "remarks": remarks(result),
    }
    return as_json(record)


def _by_set(
    sets: Sequence[TrialSet],
    extents: Sequence[Extent],
    over: str,
) -> dict[str, dict[str, Any]]:
    records = {}
    for known, extent in zip(sets, extents, strict=True):
        records[known.name] = _extent_record(extent, over)
    return records


def _extent_record(
    extent: Extent,
    over: str,
) -> dict[str, Any]:
    return {"highest": _record(extent.highest, over), "mean": _record(extent.mean, over)}


def _record(
    interval: Interval,
    over: str,
) -> dict[str, Any]:
    return {"eer": interval.value, "interval_95": bounds_record(interval) if over else None}
