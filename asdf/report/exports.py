"""Summaries in JSON and CSV for programs, and all formats with rows of configurations over seeds.

Invariant: JSON and CSV have all digits, with EERs as fractions, and no text in a CSV is read as a
formula by a spreadsheet. Files in the folders of runs are grouped by the recorded settings; other
files only as the command line specifies. Without groups, every output is the same as without seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from asdf.metrics.decisions import DECISION_METRICS
from asdf.metrics.detection import ASVSPOOF5
from asdf.metrics.metric_columns import EER, METRICS, MIN_DCF, defined
from asdf.metrics.results import Condition
from asdf.metrics.summary import Summary, Tandem
from asdf.report.paper_tables import to_latex
from asdf.runs.layout import layout_of_score_file, network_of_score_file
from asdf.tables.renderers import as_csv, as_json, as_latex, bounds_records, records_of
from asdf.tables.table import Columns, Table, Value, counts, each, labels_of, texts
from asdf.tasks.studies.configurations import Configuration, group_runs, recorded_seed
from asdf.tasks.studies.over_seeds import spread_of
from asdf.tasks.studies.seed_results import (
    SEEDS_LEAD,
    Member,
    OverSeeds,
    SeedResult,
    measure_set,
    validation_cost,
)
from asdf.trials.how_scored import UNKNOWN, described, role_record
from asdf.trials.run_folder import RunFolder
from asdf.trials.trial_list import TrialList

_SYSTEM = ("system", "set", "kind", "column", "value", "against", "bona_fide", "spoof")
_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_ELSEWHERE = {*DECISION_METRICS, "threshold", *(field.name for field in fields(Tandem))}
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
_SPEAKER_BOUNDS = tuple(f"speaker_{name}" for name in _BOUNDS)
_NO_INTERVALS = SimpleNamespace()
_SCORED = ("scored_length", "scoring_precision", "trained_on", "chose_network")
CSV_COLUMNS = (*_SYSTEM, *_RESULT, *_POOLED, *_BOUNDS, *_SPEAKER_BOUNDS, *_SCORED)
_LABEL = 20


def record(summary: Summary) -> dict[str, Any]:
    """Return a summary without its scores, as types that JSON has."""
    # Metrics of decisions and of an ASV system have their own records below.
    metrics = [metric for metric in METRICS if metric.key not in _ELSEWHERE]
    decisions = summary.decisions
    return {
        "system": summary.name,
        "set": summary.set,
        **asdict(summary.result),
        # The order is that of earlier versions.
        "auc": None,
        **{metric.key: metric.of(summary) for metric in metrics},
        "decisions": decisions
        and {
            "threshold": decisions.threshold.value,
            "threshold_source": decisions.threshold.source,
            **asdict(decisions.confusion),
            **decisions.confusion.values(),
            "intervals_95": {
                "trials": bounds_records(decisions.intervals),
                "speakers": bounds_records(decisions.speaker_intervals),
            },
        },
        "tandem": asdict(summary.tandem) if summary.tandem else None,
        "intervals_95": {
            "trials": bounds_records(vars(summary.intervals or _NO_INTERVALS)),
            "speakers": bounds_records(vars(summary.speaker_intervals or _NO_INTERVALS)),
        },
        "conditions": [_condition_record(c, summary.is_hard) for c in summary.conditions],
        "means": {column: _means(summary, column) for column in summary.columns},
        **summary.scored.record(),
        "warnings": [finding.message for finding in summary.findings],
        **_costs(summary),
    }


def _costs(summary: Summary) -> dict[str, float]:
    """Return the costs by their names on the command line, if they are not those of ASVspoof 5."""
    return {} if summary.cost == ASVSPOOF5 else summary.cost.named()


def to_csv(summaries: Sequence[Summary]) -> str:
    """Return a row for each system and each of its conditions.

    `kind` is pooled, condition or mean; a column that does not apply to a kind is empty.
    """
    rows = []
    for summary in summaries:
        common = {
            "system": summary.name,
            "set": summary.set,
            "scored_length": described(summary.scored.length),
            "scoring_precision": summary.scored.precision or UNKNOWN,
            **role_record(summary.scored.role),
            **_costs(summary),
        }
        pooled: dict[str, Any] = {**common, "kind": "pooled", **asdict(summary.result)}
        pooled |= {metric.key: metric.of(summary) for metric in METRICS}
        for prefix, drawn in (("", summary.intervals), ("speaker_", summary.speaker_intervals)):
            for key, interval in vars(drawn or _NO_INTERVALS).items():
                pooled[f"{prefix}{key}_low"] = interval.low
                pooled[f"{prefix}{key}_high"] = interval.high
        rows.append(pooled)
        for column in summary.columns:
            conditions = summary.of_column(column)
            for condition in conditions:
                row = {**common, **_condition_record(condition, summary.is_hard)}
                # A CSV has no nested records.
                decided = row.pop("decisions", None) or {}
                rows.append({**row, **decided, "kind": "condition"})
            of_column = {"kind": "mean", "column": column, "against": conditions[0].bona_fide}
            rows.append({**common, **of_column, **_means(summary, column)})
    return as_csv([*CSV_COLUMNS, *_costs(summaries[0])], rows)


def _condition_record(condition: Condition, is_hard: bool) -> dict[str, Any]:
    record = {
        "column": condition.column,
        "value": condition.value,
        "against": condition.bona_fide,
        **asdict(condition.result),
    }
    # Decisions have no threshold to vary, so metrics of scores mean nothing.
    if is_hard:
        record.update(dict.fromkeys(_RESULT))
    if condition.decisions is not None:
        record["decisions"] = condition.decisions.values()
    return record


def _means(summary: Summary, column: str) -> dict[str, Any]:
    """Return the means over the conditions of a column, by the name of the metric."""
    means = {} if summary.is_hard else asdict(summary.average(column))
    return {**means, **summary.average_decisions(column)}


def configurations_of(
    names: Sequence[str], paths: Sequence[Path], groups: Sequence[str]
) -> list[Configuration]:
    """Return the configurations of score files, those of several seeds first."""
    runs = dict(enumerate(map(_run_of, paths)))
    members: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        if group:
            members.setdefault(group, []).append(index)
    free = {index: run for index, run in runs.items() if run is not None and not groups[index]}
    for set_name in dict.fromkeys(paths[index].name for index in free):
        of_set = [index for index in free if paths[index].name == set_name]
        for alike in group_runs([free[i] for i in of_set], [names[i] for i in of_set]):
            # Files of another set may be of a configuration with the same name.
            name = alike.name if alike.name not in members else f"{alike.name} {set_name}"
            members[name] = [of_set[number] for number in alike.runs]
    grouped = {index for indices in members.values() for index in indices}
    members |= {name: [index] for index, name in enumerate(names) if index not in grouped}
    configurations = []
    for name, indices in members.items():
        systems = tuple(names[index] for index in indices)
        of_runs = [runs[index] for index in indices]
        # A file with an unknown seed gets a unique one, so that no other is paired with it.
        known = [None if run is None else recorded_seed(run) for run in of_runs]
        seeds = tuple(seed or system for seed, system in zip(known, systems, strict=True))
        configurations.append(Configuration(name, systems, seeds, indices[0]))
    return configurations


def _run_of(path: Path) -> RunFolder | None:
    layout = layout_of_score_file(path.absolute())
    return RunFolder(layout.system) if layout and layout.settings.exists() else None


def over_seeds_of(
    summaries: Sequence[Summary],
    paths: Sequence[Path],
    groups: Sequence[str],
    trials: TrialList | None,
    replicates: int,
) -> OverSeeds:
    """Return the results over seeds on one set, for systems that differ only in their seed.

    The result is empty if no configuration has several seeds.

    Args:
        summaries: Results of the systems, with distinct names.
        paths: Score file of each system.
        groups: Configuration of each file on the command line; '' for none.
    """
    configurations = configurations_of(each(summaries, "name"), paths, groups)
    over = OverSeeds(configurations, cost=summaries[0].cost)
    if not over.has_groups:
        return OverSeeds()
    members = []
    for summary, path in zip(summaries, paths, strict=True):
        run, network = _run_of(path), network_of_score_file(path.absolute())
        validated = validation_cost(run, str(network)) if run and network else None
        read = partial(lambda scores: (scores, trials), summary.scores)
        seed = over.seeds[summary.name]
        members.append(Member(summary.name, seed, summary.result, read, validated))
    measure_set(over, summaries[0].set, members, replicates)
    return over


def json_with_seeds(summaries: Sequence[Summary], over: OverSeeds) -> str:
    """Return the JSON of score files, with a record for each configuration of several seeds."""
    records = list(map(record, summaries))
    for result in _of_several_seeds(over):
        entry: dict[str, Any] = {
            "configuration": result.name,
            "set": result.set,
            "systems": list(result.configuration.systems),
            "seeds": list(result.seeds),
        }
        for name, spread in (("eer", result.eer), ("min_dcf", result.min_dcf)):
            entry |= {f"mean_{name}": spread.mean, f"deviation_{name}": spread.deviation}
            bounds = spread.interval
            entry[f"interval_95_{name}"] = bounds and {"low": bounds.low, "high": bounds.high}
        if best := result.best:
            chosen = {"system": best.system, "eer": best.eer, "chosen_by": best.chosen_words}
            entry["best"] = chosen
        records.append(entry)
    return as_json(records)


def _of_several_seeds(over: OverSeeds) -> list[SeedResult]:
    return [result for result in over.results() if len(result.seeds) > 1]


def csv_with_seeds(summaries: Sequence[Summary], over: OverSeeds) -> str:
    """Return the CSV of score files, with two rows for each configuration of several seeds.

    Their `kind` is 'seed mean', with the interval of the mean, and 'seed deviation'.
    """
    costs = _costs(summaries[0])
    rows = []
    for result in _of_several_seeds(over):
        columns: Columns = [texts("kind", ["seed mean", "seed deviation"])]
        for metric, spread in ((EER, result.eer), (MIN_DCF, result.min_dcf)):
            columns.append((metric, [Value.of_spread(spread), Value(spread.deviation)]))
        for of_kind in records_of(Table([result.name] * 2, columns, "system")):
            rows.append({**of_kind, "set": result.set, **costs})
    return to_csv(summaries) + as_csv([*CSV_COLUMNS, *costs], rows, has_head=False)


def latex_with_seeds(
    summaries: Sequence[Summary], leading: Mapping[str, int], over: OverSeeds
) -> str:
    """Return the tables of `to_latex`, and one of the configurations with several seeds.

    The latter has means and standard deviations over seeds, by metric.
    """
    latex = to_latex(summaries, leading)
    if not over.by_set:
        return latex
    results = over.results()
    by_name = dict(zip(each(summaries, "name"), summaries, strict=True))
    columns: Columns = [counts("Seeds", [len(result.seeds) for result in results])]
    for metric in defined(summaries):
        values = []
        for result in results:
            of_systems = [metric.of(by_name[name]) for name in result.configuration.systems]
            known = [value for value in of_systems if value is not None]
            spread = spread_of(known) if len(known) == len(of_systems) else None
            # Differences over seeds are tested for the EER only.
            is_best = metric.key == "eer" and over.is_leading(result)
            values.append(Value.of_spread(spread, is_best=is_best))
        columns.append((metric, values))
    notes = ["mean and standard deviation over seeds"]
    if any(map(over.is_leading, results)):
        notes.append(f"bold: {SEEDS_LEAD}")
    names = each(results, "name")
    table = Table(names, columns, "System", notes, labels_of(names, _LABEL))
    return f"{latex}\n% over seeds\n{as_latex(table)}"
