"""The results of the page: a sentence for each set, and tables of every set.

Invariant: numbers are shown as `summarise` gives them, rounded for the eye only: cells keep all
digits for sorting and copying. The best of a column is named by a word, not by a colour alone, and
only where a test says that it is the best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from asdf.metrics.catalogue import METRICS, Metric, intervals_of, metric_columns
from asdf.metrics.conditions import Condition
from asdf.metrics.intervals import FEW_GROUPS, Interval
from asdf.metrics.leading import TESTED
from asdf.metrics.summary import Summary
from asdf.report.curves import DET_TICKS
from asdf.report.gathering import Gathered
from asdf.report.measurement import Measurement
from asdf.tables.page import (
    ABSENT,
    Cell,
    PageTable,
    count_cell,
    head_cells,
    interval_text,
    name_cell,
    percent,
    value_cell,
)
from asdf.trials.how_scored import in_precision
from asdf.trials.set_roles import role_words

_EER = next(metric for metric in METRICS if metric.key == "eer")
_INTERVALS = {"trials": "95 % interval", "speakers": "over speakers"}


@dataclass(frozen=True)
class MainSentence:
    """The result of the best system on a set, in the words that the page puts together.

    Attributes:
        interval: Interval of the EER; '' where it says nothing.
        rank: among the systems, with its comma; '' for a single one.
        hardest: the attack with the highest EER; '' where that is not worth a sentence.
        warnings: why the numbers are no test.
    """

    set: str
    system: str
    eer: str
    interval: str
    rank: str
    bona_fide: str
    spoof: str
    scored: str
    hardest: str
    hardest_eer: str
    warnings: list[str]


def main_sentences(gathered: Gathered) -> list[MainSentence]:
    """Return the result of each set."""
    return [_main_sentence(gathered, set_name) for set_name in gathered.sets]


def _main_sentence(gathered: Gathered, set_name: str) -> MainSentence:
    # Sorted by EER, so the first is the lowest; whether by chance, its rank says.
    best = gathered.on(set_name)[0]
    summary = best.summary
    system = best.system
    if not system.endswith(f" {best.network}"):
        system = f"{system} ({best.network})"
    hardest = _hardest_attack(summary)
    return MainSentence(
        set=set_name,
        system=system,
        eer=percent(summary.result.eer),
        interval=interval_text(summary.intervals.eer) if summary.intervals else "",
        rank=_rank(gathered, set_name),
        bona_fide=f"{summary.result.bona_fide:,}",
        spoof=f"{summary.result.spoof:,}",
        scored=summary.scored.describe_computing(),
        hardest=hardest.value if hardest else "",
        hardest_eer=percent(hardest.result.eer) if hardest else "",
        warnings=summary.scored.warnings(),
    )


def _hardest_attack(summary: Summary) -> Condition | None:
    """Return the attack with the highest EER; None where there is one only, or none with errors."""
    # The EER of few trials is chance, and the highest of many such the more so.
    attacks = [attack for attack in summary.of_column("attack") if not attack.few]
    if len(attacks) < 2:
        return None
    hardest = max(attacks, key=lambda attack: attack.result.eer)
    # Without an error, no attack is harder than another.
    if hardest.result.eer == 0:
        return None
    return hardest


def _rank(gathered: Gathered, set_name: str) -> str:
    """Say where the best system stands among the systems, beginning with a comma."""
    eers = [summary.result.eer for summary in gathered.summaries_on(set_name)]
    if len(eers) < 2:
        return ""
    is_lowest = "eer" in gathered.leading.get(set_name, {})
    others = eers.count(eers[0]) - 1
    if len(eers) == 2:
        return _rank_of_two(is_lowest=is_lowest, is_shared=others > 0)
    if is_lowest:
        return f", significantly the lowest of {len(eers)} systems"
    shared = ""
    if others:
        plural = "s" if others > 1 else ""
        shared = f" (as {others} other{plural})"
    return f", the lowest of {len(eers)} systems{shared}, which may be chance"


def _rank_of_two(*, is_lowest: bool, is_shared: bool) -> str:
    """Say how the better one of two systems compares with the other one."""
    if is_lowest:
        return ", significantly lower than that of the other system"
    if is_shared:
        return ", equal to that of the other system"
    return ", lower than that of the other system, which may be chance"


def overview(gathered: Gathered) -> PageTable | None:
    """Return the EER of every system on every set; None where nothing was measured."""
    if not gathered.measurements:
        return None
    rows = []
    for system in gathered.systems:
        by_set = {}
        for measured in gathered.measurements:
            if measured.system == system:
                by_set[measured.summary.set] = measured
        networks = dict.fromkeys(measured.network for measured in by_set.values())
        row = [name_cell(system, gathered.labels[system]), Cell(", ".join(networks))]
        for set_name in gathered.sets:
            known = by_set.get(set_name)
            row.append(_eer_cell(gathered, known) if known else Cell(ABSENT))
        rows.append(row)
    order = ""
    if len(rows) > 1 and len(gathered.sets) > 1:
        order = f", sorted by {gathered.sets[-1]}"
    caption = f"EER in % on each set, with its 95 % interval{order}"
    return PageTable(caption, head_cells(["System", "Network", *gathered.sets]), rows, "overview")


def _eer_cell(gathered: Gathered, measured: Measurement) -> Cell:
    summary = measured.summary
    cell = _marked(gathered, measured, _EER, _percent_cell(summary.result.eer))
    interval = interval_text(summary.intervals.eer) if summary.intervals else ""
    remark = in_precision(summary.scored.precision) + role_words(summary.scored.role)
    return replace(cell, remark=remark, interval=interval)


def result_table(gathered: Gathered, set_name: str) -> PageTable:
    """Return all metrics of the systems on a set."""
    measured = gathered.on(set_name)
    summaries = [system.summary for system in measured]
    head = ["System", "Network"]
    rows = []
    for system in measured:
        rows.append(
            [name_cell(system.system, gathered.labels[system.system]), Cell(system.network)]
        )
    for metric, values in metric_columns(summaries, {}):
        head.append(metric.heading)
        for system, row, value in zip(measured, rows, values, strict=True):
            # Its intervals have columns of their own.
            cell = replace(value_cell(metric, value), interval="")
            row.append(_marked(gathered, system, metric, cell) if metric.key in TESTED else cell)
        for kind, heading in _INTERVALS.items():
            # Only where any system has them: an empty column would raise the question why.
            if any(kind in value.intervals for value in values):
                head.append(heading)
                for row, summary in zip(rows, summaries, strict=True):
                    row.append(_interval_cell(metric, intervals_of(metric, summary).get(kind)))
    head += ["Bona fide", "Spoof", "Scored"]
    for summary, row in zip(summaries, rows, strict=True):
        row += [count_cell(summary.result.bona_fide), count_cell(summary.result.spoof)]
        row.append(Cell(summary.scored.describe()))
    return PageTable(f"Results on {set_name}", head_cells(head), rows, "metrics")


def det_table(gathered: Gathered, set_name: str) -> PageTable:
    """Return the DET curves in numbers: miss rates at the false alarm rates of the ticks."""
    rows = []
    for measured in gathered.on(set_name):
        name = name_cell(measured.system, gathered.labels[measured.system])
        rows.append([name, *map(_percent_cell, measured.misses)])
    caption = f"Miss rate in % on {set_name} where at most so many of the spoofs are accepted"
    return PageTable(caption, head_cells(["System", *(f"{tick:g} %" for tick in DET_TICKS)]), rows)


def shows_several_networks_of_a_run(gathered: Gathered) -> bool:
    """Whether a reader could choose a network by its result on the very set that is shown."""
    runs = {measured.system: measured.run for measured in gathered.measurements}
    return len(set(runs.values())) < len(runs)


def _marked(gathered: Gathered, measured: Measurement, metric: Metric, cell: Cell) -> Cell:
    """Mark a value: 'best' where a test says so, 'lowest' where chance may have made it so."""
    set_name = measured.summary.set
    if gathered.leading.get(set_name, {}).get(metric.key) == measured.system:
        return replace(cell, css="best", mark="best")
    value = metric.of(measured.summary)
    values = [metric.of(summary) for summary in gathered.summaries_on(set_name)]
    known = [other for other in values if other is not None]
    # A lowest value that is shared is nobody's.
    if len(known) > 1 and value == min(known) and known.count(min(known)) == 1:
        return replace(cell, mark="lowest")
    return cell


def _percent_cell(rate: float) -> Cell:
    return Cell(percent(rate), 100 * rate)


def _interval_cell(metric: Metric, interval: Interval | None) -> Cell:
    """Return an interval as text, with the number of speakers where these are few."""
    if interval is None:
        return Cell(ABSENT)
    text = metric.format_bounds(interval, "–", paper=True)
    if interval.groups is None or interval.groups >= FEW_GROUPS:
        return Cell(text)
    return Cell(f"{text} ({interval.describe_groups('speakers')})")
