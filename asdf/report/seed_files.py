"""Score files put together over seeds: their configurations, and the results as text and files.

Invariant: files inside the folders of runs are put together by what their runs recorded; loose
files only where the command line says so. Without either nothing is put together, and every output
is what it is without seeds.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asdf.metrics.catalogue import Metric, defined
from asdf.metrics.over_seeds import Spread, spread_of
from asdf.metrics.summary import Summary
from asdf.report.configurations import Configuration
from asdf.report.exports import CSV_COLUMNS
from asdf.report.grouping import group_runs, recorded_seed
from asdf.report.latex_cells import SEEDS_LEAD, spread_cell
from asdf.report.names import labels_of
from asdf.report.seed_results import (
    Member,
    OverSeeds,
    SeedResult,
    measure_set,
    validation_cost,
)
from asdf.report.seeds import describe_result, difference_sentence
from asdf.runs.layout import layout_of_score_file, network_of_score_file
from asdf.tables.latex import latex_text, tabulars
from asdf.text import aligned, csv_text
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

_LABEL = 20


def file_configurations(
    names: Sequence[str], paths: Sequence[Path], groups: Sequence[str]
) -> list[Configuration]:
    """Return the configurations of score files, those of several seeds first.

    Args:
        names: Names of the systems, no two alike.
        groups: the configuration that the command line puts each file into; '' for none.
    """
    runs = [_run_of(path) for path in paths]
    members: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        if group:
            members.setdefault(group, []).append(index)
    free = [index for index, run in enumerate(runs) if run is not None and not groups[index]]
    for set_name in dict.fromkeys(paths[index].name for index in free):
        of_set = [index for index in free if paths[index].name == set_name]
        known = [run for index in of_set if (run := runs[index]) is not None]
        for alike in group_runs(known, [names[index] for index in of_set]):
            name = alike.name if alike.name not in members else f"{alike.name} {set_name}"
            members[name] = [of_set[number] for number in alike.runs]
    grouped = {index for indices in members.values() for index in indices}
    for index, name in enumerate(names):
        if index not in grouped:
            members[name] = [index]
    configurations = []
    for name, indices in members.items():
        seeds = tuple(_seed_of(runs[index], names[index]) for index in indices)
        systems = tuple(names[index] for index in indices)
        configurations.append(Configuration(name, systems, seeds, indices[0]))
    return configurations


def _run_of(path: Path) -> RunFolder | None:
    layout = layout_of_score_file(path.absolute())
    if layout is None or not layout.settings.exists():
        return None
    return RunFolder(layout.system)


def _seed_of(run: RunFolder | None, name: str) -> str:
    # A file whose seed is not known has one of its own, which no other is paired with.
    return (run and recorded_seed(run)) or name


def over_seeds_of(
    configurations: list[Configuration],
    summaries: Mapping[str, Summary],
    paths: Mapping[str, Path],
    trials: TrialList | None,
    replicates: int,
) -> OverSeeds:
    """Return the results of configurations on one set; nothing where none has several seeds.

    Args:
        summaries, paths: by the names of the systems.
    """
    over = OverSeeds(configurations)
    if not over.has_groups:
        return OverSeeds()
    members: dict[str, list[Member]] = {}
    for known in configurations:
        for system, seed in zip(known.systems, known.seeds, strict=True):
            member = _member_of(summaries[system], seed, paths[system], trials)
            members.setdefault(known.name, []).append(member)
    set_name = next(iter(summaries.values())).set
    measure_set(over, set_name, members, replicates)
    return over


def _member_of(summary: Summary, seed: str, path: Path, trials: TrialList | None) -> Member:
    run = _run_of(path)
    network = network_of_score_file(path.absolute())
    validated = None
    if run is not None and network is not None:
        validated = validation_cost(run, str(network))

    def read() -> tuple[Scores, TrialList | None]:
        return summary.scores, trials

    return Member(summary.name, seed, summary.result, read, validated)


def _results(over: OverSeeds) -> list[SeedResult]:
    return [result for results in over.by_set.values() for result in results]


def over_seeds_text(over: OverSeeds) -> str:
    """Return the results over seeds as a table of at most 80 columns, and what the test says."""
    results = _results(over)
    labels = labels_of([result.name for result in results], _LABEL)
    rows = [("over seeds", "seeds", "EER %", "deviation", "95 %", "best", "minDCF", "dev.")]
    for result, label in zip(results, labels, strict=True):
        best = "-" if result.best is None else f"{100 * result.best.eer:.3f}"
        cost = result.min_dcf
        rows.append(
            (
                label,
                str(len(result.seeds)),
                f"{100 * result.eer.mean:.3f}",
                _deviation(result.eer, 100, 3),
                _interval(result.eer),
                best,
                f"{cost.mean:.4f}",
                _deviation(cost, 1, 4),
            )
        )
    lines = aligned(rows, right=range(1, len(rows[0])))
    chosen_by = [result.best.chosen_by or "this set itself" for result in results if result.best]
    lines.append(f"best seed by {', '.join(dict.fromkeys(chosen_by))}")
    for set_name, tested in over.next_tested.items():
        first, second = over.by_set[set_name][:2]
        words = difference_sentence(tested, describe_result(first), describe_result(second))
        lines += ["", words]
    return "\n".join(lines)


def _deviation(spread: Spread, unit: float, digits: int) -> str:
    return "-" if spread.deviation is None else f"{unit * spread.deviation:.{digits}f}"


def _interval(spread: Spread) -> str:
    if spread.interval is None:
        return "-"
    return f"{100 * spread.interval.low:.2f} .. {100 * spread.interval.high:.2f}"


def json_with_seeds(records: str, over: OverSeeds) -> str:
    """Return the JSON of score files with a record for each configuration of several seeds."""
    groups = [_record(result) for result in _results(over) if len(result.seeds) > 1]
    if not groups:
        return records
    return json.dumps([*json.loads(records), *groups], indent=2, ensure_ascii=False) + "\n"


def _record(result: SeedResult) -> dict[str, Any]:
    record: dict[str, Any] = {
        "configuration": result.name,
        "set": result.set,
        "systems": list(result.configuration.systems),
        "seeds": list(result.seeds),
    }
    for name, spread in (("eer", result.eer), ("min_dcf", result.min_dcf)):
        record[f"mean_{name}"] = spread.mean
        record[f"deviation_{name}"] = spread.deviation
        bounds = None
        if spread.interval is not None:
            bounds = {"low": spread.interval.low, "high": spread.interval.high}
        record[f"interval_95_{name}"] = bounds
    if result.best is not None:
        record["best"] = {
            "system": result.best.system,
            "eer": result.best.eer,
            "chosen_by": result.best.chosen_by or "this set itself",
        }
    return record


def csv_with_seeds(rows: str, over: OverSeeds) -> str:
    """Return the CSV of score files with two rows for each configuration of several seeds.

    Their `kind` is 'seed mean', with the interval of the mean, and 'seed deviation'.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    for result in _results(over):
        if len(result.seeds) < 2:
            continue
        common = {"system": csv_text(result.name), "set": csv_text(result.set)}
        mean = {"kind": "seed mean", "eer": result.eer.mean, "min_dcf": result.min_dcf.mean}
        for name, spread in (("eer", result.eer), ("min_dcf", result.min_dcf)):
            if spread.interval is not None:
                mean[f"{name}_low"] = spread.interval.low
                mean[f"{name}_high"] = spread.interval.high
        writer.writerow({**common, **mean})
        deviations = {"eer": result.eer.deviation, "min_dcf": result.min_dcf.deviation}
        writer.writerow({**common, "kind": "seed deviation", **deviations})
    return rows + text.getvalue()


def seeds_to_latex(over: OverSeeds, summaries: Mapping[str, Summary]) -> str:
    """Return a table of configurations by metric, as mean and standard deviation over seeds."""
    results = _results(over)
    columns = [["Seeds", *(str(len(result.seeds)) for result in results)]]
    for metric in defined(list(summaries.values())):
        if metric.in_papers:
            columns.append(_metric_column(metric, over, results, summaries))
    notes = ["mean and standard deviation over seeds"]
    if any(map(over.is_leading, results)):
        notes.append(f"bold: {SEEDS_LEAD}")
    labels = map(latex_text, labels_of([result.name for result in results], _LABEL))
    return "% over seeds\n" + tabulars(["System", *labels], columns, notes)


def _metric_column(
    metric: Metric,
    over: OverSeeds,
    results: Sequence[SeedResult],
    summaries: Mapping[str, Summary],
) -> list[str]:
    column = [latex_text(metric.heading)]
    unit = 100 if metric.percent else 1
    for result in results:
        values = [metric.of(summaries[system]) for system in result.configuration.systems]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            column.append("--")
            continue
        # Of the other metrics no difference over seeds is tested.
        is_best = metric.key == "eer" and over.is_leading(result)
        digits = metric.paper_digits
        column.append(spread_cell(spread_of(known), is_best=is_best, unit=unit, digits=digits))
    return column
