"""Results on the page: a sentence for each set, tables of every set, conditions, published results.

Invariant: numbers are those of `summarise`, rounded only for display: cells keep all digits for
sorting and copying. The best of a column is named by a word, not only by a colour, and only if a
test supports it. A published number is shown only if all measurements are over the same trials, and
next to one for which as much of each recording was scored. A colour means the same EER in all
tables of the page, on one hue from pale to deep, and an EER over few trials has no colour. Results
of source tracing and localisation are sorted by accuracy, or by range EER; no value is marked as
the best, because there is no test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from asdf.metrics.intervals import FEW, FEW_GROUPS, Interval
from asdf.metrics.metric_columns import EER, Metric, metric_columns, metric_values
from asdf.metrics.results import Condition
from asdf.metrics.summary import Summary
from asdf.report.curves import DET_TICKS
from asdf.report.gathering import Gathered, Measurement, Result, TaskResult, by_set
from asdf.tables.renderers import HEAT_STEPS, Cell, PageTable, as_page, count_cell
from asdf.tables.table import (
    RATE,
    Column,
    Columns,
    Table,
    Value,
    counts,
    each,
    labels_of,
    rate,
    texts,
)
from asdf.tasks.localisation.located_measures import LocatedResult, located_columns
from asdf.tasks.studies.generalisation import KNOWN_SETS, published_alike
from asdf.tasks.tracing.source_measures import (
    SourceResult,
    class_table,
    confusion_svg,
    source_columns,
)
from asdf.text import count_of
from asdf.trials.how_scored import described, in_precision, role_words

# Maximum number of plots; a page with more or larger ones loads slowly.
_MAX_PICTURES = 8
_MAX_PICTURE_CLASSES = 40
_TASK_LABEL = 28
_INTERVALS = {"trials": "95 % interval", "speakers": "over speakers"}


def main_sentence(gathered: Gathered, set_name: str) -> dict[str, Any]:
    """Return the result of the best system on a set, as parts of the sentence on the page.

    Empty parts are left out: an interval that is not meaningful, the rank of a single system, and
    the attack with the highest EER if it is not worth a sentence.
    """
    # The first system has the lowest EER; its rank states whether this may be chance.
    best = gathered.on(set_name)[0]
    summary = best.summary
    system = best.system
    # The name of a system may state its network already.
    if not system.endswith(f" {best.network}"):
        system = f"{system} ({best.network})"
    # The EER of few trials is random, and the highest of many such EERs even more so.
    eers = {one.value: one.result.eer for one in summary.of_column("attack") if not one.few}
    # Alone, or without an error, no attack is harder than another.
    hardest = max(eers, key=eers.__getitem__) if len(eers) > 1 and any(eers.values()) else ""
    return {
        "set": set_name,
        "system": system,
        "eer": RATE.format(summary.result.eer),
        "interval": RATE.format_bounds(summary.intervals.eer, "–") if summary.intervals else "",
        "rank": rank_words(gathered, set_name),
        "bona_fide": f"{summary.result.bona_fide:,}",
        "spoof": f"{summary.result.spoof:,}",
        "scored": summary.scored.describe_computing(),
        "hardest": hardest,
        "hardest_eer": RATE.format(eers[hardest]) if hardest else "",
        "warnings": summary.scored.warnings(),
    }


def rank_words(gathered: Gathered, set_name: str) -> str:
    """Return the rank of the best system among the systems, beginning with a comma."""
    eers = [summary.result.eer for summary in gathered.summaries_on(set_name)]
    if len(eers) < 2:
        return ""
    than = f"the lowest of {len(eers)} systems"
    if len(eers) == 2:
        than = "lower than that of the other system"
    if "eer" in gathered.leading[set_name]:
        return f", significantly {than}"
    others = eers.count(eers[0]) - 1
    if others and len(eers) == 2:
        return ", equal to that of the other system"
    shared = f" (as {count_of(others, 'other')})" if others else ""
    return f", {than}{shared}, which may be chance"


def overview(gathered: Gathered) -> PageTable | None:
    """Return the EER of every system on every set; None if nothing was measured."""
    if not gathered.measurements:
        return None
    networks: dict[str, dict[str, None]] = {system: {} for system in gathered.systems}
    for known in gathered.measurements:
        networks[known.system][known.network] = None
    caption = "EER in % on each set, with its 95 % interval"
    if len(gathered.systems) > 1 and len(gathered.sets) > 1:
        caption += f", sorted by {gathered.sets[-1]}"
    named = list(map(", ".join, networks.values()))
    table = _system_table(gathered, gathered.systems, named, system_columns(gathered))
    return as_page(table, caption, "overview")


def _system_table(
    gathered: Gathered, systems: Sequence[str], networks: Sequence[str], columns: Columns
) -> Table:
    labels = [gathered.labels[system] for system in systems]
    return Table(systems, [texts("Network", networks), *columns], "System", labels=labels)


def system_columns(gathered: Gathered) -> Columns:
    """Return the EER of each system by set, for the page and papers."""
    columns: Columns = []
    for set_name in gathered.sets:
        measured = gathered.on(set_name)
        leader = gathered.leading[set_name].get("eer")
        values = metric_values(EER, each(measured, "summary"), leader)
        by_system = {}
        for known, value in zip(measured, values, strict=True):
            scored = known.summary.scored
            remark = in_precision(scored.precision) + role_words(scored.role)
            by_system[known.system] = replace(value, remark=remark)
        shown = [by_system.get(system, Value()) for system in gathered.systems]
        columns.append((set_column(gathered, set_name), shown))
    return columns


def set_column(gathered: Gathered, set_name: str) -> Column:
    """Return the column of a set, with a mark if results of a system on it are not a test."""
    mark = r"$^\ddagger$" if gathered.set_remarks(set_name) else ""
    return rate(set_name, paper_mark=mark)


def result_table(gathered: Gathered, set_name: str) -> PageTable:
    """Return all metrics of the systems on a set."""
    measured = gathered.on(set_name)
    summaries = each(measured, "summary")
    columns: Columns = []
    for metric, values in metric_columns(summaries, gathered.leading[set_name]):
        # Intervals have their own columns.
        columns.append((metric, [replace(value, intervals={}) for value in values]))
        drawn = each(values, "intervals")
        for kind, heading in _INTERVALS.items():
            # Only if any system has them: an empty column would be confusing.
            if any(kind in known for known in drawn):
                cells = [interval_words(metric, known.get(kind)) for known in drawn]
                columns.append(Column(kind, heading).with_texts(cells))
    columns += [
        counts("Bona fide", each(summaries, "result.bona_fide")),
        counts("Spoof", each(summaries, "result.spoof")),
        texts("Scored", [summary.scored.describe() for summary in summaries]),
    ]
    systems = each(measured, "system")
    networks = each(measured, "network")
    table = _system_table(gathered, systems, networks, columns)
    return as_page(table, f"Results on {set_name}", "metrics")


def det_table(gathered: Gathered, set_name: str) -> PageTable:
    """Return the DET curves as numbers: miss rates at the false alarm rates of the ticks."""
    measured = gathered.on(set_name)
    by_tick = zip(DET_TICKS, zip(*each(measured, "misses"), strict=True), strict=True)
    columns = [rate(f"{tick:g} %").with_values(misses) for tick, misses in by_tick]
    names = each(measured, "system")
    labels = [gathered.labels[name] for name in names]
    caption = f"Miss rate in % on {set_name} where at most so many of the spoofs are accepted"
    return as_page(Table(names, columns, "System", labels=labels), caption)


def shows_several_networks_of_a_run(gathered: Gathered) -> bool:
    """Whether readers could choose a network by its result on the set that is shown."""
    runs = {measured.system: measured.run for measured in gathered.measurements}
    return len(set(runs.values())) < len(runs)


def interval_words(metric: Metric, interval: Interval | None) -> str | None:
    """Return an interval as text, with the number of speakers if they are few."""
    if interval is None:
        return None
    text = metric.format_bounds(interval, "–", paper=True)
    if interval.groups is None or interval.groups >= FEW_GROUPS:
        return text
    return f"{text} ({interval.describe_groups('speakers')})"


@dataclass(frozen=True)
class Literature:
    """Published results on a set.

    Attributes:
        table: Table of the results; None if none is comparable.
        others: Sentence about results that are left out; '' if there are none.
        why_not: Reason why there is no table.
    """

    table: PageTable | None = None
    others: str = ""
    why_not: str = ""


def published_results(set_name: str, measured: Sequence[Measurement]) -> Literature | None:
    """Return the published results on a set with the same protocol, or why they are not shown.

    The result is None for a set that is not public.
    """
    if set_name not in KNOWN_SETS:
        return None
    known = KNOWN_SETS[set_name]
    shown = published_alike(set_name, measured)
    if shown is None:
        return Literature(
            why_not=f"they are over {known.trials.bona_fide:,} bona fide and "
            f"{known.trials.spoof:,} spoof trials, and what was measured here is over others"
        )
    left_out = [reference for reference in known.results if reference not in shown]
    other_lengths = "; ".join(dict.fromkeys(map(described, each(left_out, "scored"))))
    if not shown:
        lengths = dict.fromkeys(each(measured, "summary.scored.length"))
        measured_lengths = "; ".join(map(described, lengths))
        return Literature(
            why_not=f"they were scored from other lengths of the recordings ({other_lengths}) "
            f"than what was measured here ({measured_lengths})"
        )
    others = ""
    if left_out:
        others = f"{len(left_out)} more were scored from other lengths ({other_lengths})."
    known_costs = each(shown, "min_tdcf")
    # With the digits of its paper, which differ from paper to paper.
    costs = [Value(cost, text=None if cost is None else f"{cost:g}") for cost in known_costs]
    columns: Columns = [
        Column("eer", "EER %", paper_digits=2).with_values(each(shown, "eer")),
        (Column("min_tdcf", "min t-DCF"), costs),
        texts("Scored", list(map(described, each(shown, "scored")))),
        texts("Source", each(shown, "paper")),
        texts("Remark", each(shown, "note")),
    ]
    table = Table(each(shown, "system"), columns, "System")
    return Literature(as_page(table, f"Published results on {known.title}", "published"), others)


_LABEL = 18
# A table of up to this many values fits next to the DET curves.
_SMALL = 6


def columns_of(summaries: Sequence[Summary]) -> list[str]:
    """Return the columns for which any of the summaries has conditions."""
    # As keys: each column once, in the order of the first system that has it.
    return list(dict.fromkeys(column for summary in summaries for column in summary.columns))


def conditions_by_value(
    summaries: Sequence[Summary], column: str
) -> dict[str, list[Condition | None]]:
    """Return the condition of each system by the values that any has, in alphabetical order."""
    systems = []
    for summary in summaries:
        systems.append({condition.value: condition for condition in summary.of_column(column)})
    conditions = {}
    for value in sorted(set().union(*systems)):
        conditions[value] = [of_system.get(value) for of_system in systems]
    return conditions


def eers_of(conditions: Sequence[Condition | None]) -> list[float | None]:
    """Return EERs as fractions; None for a system without the condition."""
    return [None if known is None else known.result.eer for known in conditions]


def eer_columns(
    summaries: Sequence[Summary], column: str, total: Literal["mean", "pooled"], label: int = 0
) -> Columns:
    """Return a column of EERs for each value of `column`, and one of mean or pooled EERs.

    Args:
        label: Maximum length of headings, which are shortened to it; 0: no limit.
    """
    conditions = conditions_by_value(summaries, column)
    named = zip(_headings(list(conditions), label), conditions.values(), strict=True)
    columns = [rate(name, digits=3).with_values(eers_of(known)) for name, known in named]
    totals = []
    for summary in summaries:
        # A system may lack the column. Its mean over no values is not defined, and a pooled EER
        # alone in its row would look like that of the conditions.
        eer = None
        if column in summary.columns:
            eer = summary.average(column).eer if total == "mean" else summary.result.eer
        totals.append(eer)
    return [*columns, rate(total, digits=3).with_values(totals)]


def macro_f1_columns(summaries: Sequence[Summary], column: str, label: int = 0) -> Columns:
    """Return a column of macro-F1s for each value of `column`, and those of means and pooled."""
    conditions = conditions_by_value(summaries, column)
    columns: Columns = []
    headings = _headings(list(conditions), label)
    for heading, of_value in zip(headings, conditions.values(), strict=True):
        decided = [known and known.decisions for known in of_value]
        macro_f1s = [known.values()["macro_f1"] if known else None for known in decided]
        columns.append(rate(heading).with_values(macro_f1s))
    means = [summary.average_decisions(column).get("macro_f1") for summary in summaries]
    pooled = [known.value("macro_f1") if known else None for known in each(summaries, "decisions")]
    return [*columns, rate("mean").with_values(means), rate("pooled").with_values(pooled)]


def value_heading(value: str) -> str:
    """Return the value of a condition as a heading, quoted if a row of our own has its name."""
    return f"'{value}'" if value in ("mean", "pooled") else value


def _headings(values: Sequence[str], label: int) -> list[str]:
    shown = labels_of(values, label) if label else values
    return list(map(value_heading, shown))


@dataclass(frozen=True)
class HeatMaps:
    """The heat maps of a set.

    Attributes:
        maps: Column and table of each map.
        few: Number of trials of a class below which an EER has no colour.
    """

    maps: list[dict[str, Any]]
    few: int
    is_small: bool

    @property
    def steps(self) -> list[str]:
        """The ranges of EERs in % of the colours."""
        between = [f"{low:g}–{high:g}" for low, high in pairwise(HEAT_STEPS)]
        return [f"< {HEAT_STEPS[0]:g}", *between, f"≥ {HEAT_STEPS[-1]:g}"]


def heat_maps(gathered: Gathered, set_name: str) -> HeatMaps | None:
    """Return a heat map for each column of conditions; None if there is no such column."""
    measured = gathered.on(set_name)
    summaries = gathered.summaries_on(set_name)
    maps = []
    is_small = True
    names = each(measured, "system")
    for column_name in columns_of(summaries):
        conditions = conditions_by_value(summaries, column_name)
        most = max(len(summary.of_column(column_name)) for summary in summaries)
        is_small = is_small and most <= _SMALL
        pooled = each(summaries, "result.eer")
        columns: Columns = [rate("all", is_shaded=True).with_values(pooled)]
        numbers = [max(each(summaries, "result.spoof"))]
        against = "all bona fide trials"
        labels = labels_of(list(conditions), _LABEL)
        for (value, known), label in zip(conditions.items(), labels, strict=True):
            column = rate(value, label, whole_name=value, is_shaded=True)
            columns.append((column, list(map(_condition_value, known))))
            # Systems may lack trials; the count of the set is the largest one.
            numbers.append(max(found.result.spoof for found in known if found is not None))
            if any(found.bona_fide == "same" for found in known if found is not None):
                against = f"bona fide trials of the same {column_name}"
        table = Table(names, columns, "System", labels=[gathered.labels[name] for name in names])
        caption = f"EER in % on {set_name} by {column_name}, against {against}"
        page = as_page(table, caption, "heat")
        # A row of trial counts, which the page's script keeps at the top in any sort order.
        spoofs = [Cell("Spoof trials", "", "pooled"), *map(count_cell, numbers)]
        maps.append({"column": column_name, "table": replace(page, rows=[spoofs, *page.rows])})
    return HeatMaps(maps, FEW, is_small) if maps else None


def _condition_value(condition: Condition | None) -> Value:
    """Return the EER of a condition with its interval as a tooltip; grey over few trials."""
    if condition is None:
        return Value()
    result = condition.result
    words = f"{result.bona_fide:,} bona fide and {result.spoof:,} spoof trials"
    if condition.interval is not None:
        words = f"95 % interval {RATE.format_bounds(condition.interval, '–')} %; {words}"
    if condition.few:
        words += f"; fewer than {FEW} of a class: too few to say anything"
    return Value(result.eer, title=words, css="few" if condition.few else "")


def source_sections(traced: Sequence[TaskResult[SourceResult]]) -> list[dict[str, Any]]:
    """Return what the page says of each set on which sources were traced, by accuracy.

    Systems have a confusion matrix (SVG; '' if there are too many classes) and a table of classes,
    except those that are `left_out`, of which there are too many for a page.
    """
    labels = system_labels(traced, _TASK_LABEL)
    sections = []
    for number, (set_name, on_set) in enumerate(by_set(traced).items()):
        on_set.sort(key=lambda entry: -entry.result.values["accuracy"])
        confusions = []
        for index, entry in enumerate(on_set[:_MAX_PICTURES]):
            title = f"{entry.system} on {entry.set}"
            known = entry.result
            # The ids of several matrices on one page must differ.
            prefix = f"confusion-{number}-{index}-"
            is_drawn = len(known.classes) <= _MAX_PICTURE_CLASSES
            svg = confusion_svg(title, known, prefix) if is_drawn else ""
            classes = class_table(known, ("Class", "Trials", "Precision", "Recall", "F1"))
            page = as_page(classes, f"Classes of {title}")
            confusions.append({"name": title, "svg": svg, "classes": page})
        results = each(on_set, "result")
        caption = f"Sources on {set_name}"
        if any(result.intervals for result in results):
            caption += ", with 95 % intervals over trials"
        table = task_table(on_set, source_columns(results), labels)
        section = {"name": set_name, "results": as_page(table, caption, "metrics")}
        left_out = len(on_set) - len(confusions)
        sections.append({**section, "confusions": confusions, "left_out": left_out})
    return sections


def localisation_tables(located: Sequence[TaskResult[LocatedResult]]) -> list[PageTable]:
    """Return a table per set, with its systems sorted by range EER."""
    labels = system_labels(located, _TASK_LABEL)
    tables = []
    for set_name, on_set in by_set(located).items():
        on_set.sort(key=lambda entry: entry.result.numbers["range_eer"])
        drawn = dict.fromkeys(filter(None, each(on_set, "result.drawn")))
        caption = f"Localisation on {set_name}"
        if drawn:
            caption += f", with 95 % intervals over {' or '.join(drawn)}"
        columns = located_columns(each(on_set, "result"), set_name)
        tables.append(as_page(task_table(on_set, columns, labels), caption, "metrics"))
    return tables


def system_labels(entries: Sequence[TaskResult[Result]], length: int) -> dict[str, str]:
    """Return labels of the systems of some results, of at most about `length` characters."""
    systems = list(dict.fromkeys(entry.system for entry in entries))
    return dict(zip(systems, labels_of(systems, length), strict=True)) if systems else {}


def task_table(
    on_set: Sequence[TaskResult[Result]],
    columns: Columns,
    labels: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of the results on a set, for the page and papers."""
    systems = each(on_set, "system")
    networks = texts("Network", each(on_set, "network"), in_papers=False)
    shown = [labels[name] for name in systems]
    return Table(systems, [networks, *columns], "System", notes, shown)
