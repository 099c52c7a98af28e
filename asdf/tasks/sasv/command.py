"""`evaluate` for spoofing-robust speaker verification (SASV), as in ASVspoof 5 and WildSpoof.

Invariant: all formats use one table of metrics. JSON and CSV have all digits, with rates as
fractions; text and LaTeX have rates in per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from asdf.commands.evaluate import EvaluateOptions, development_files
from asdf.commands.judged_files import System
from asdf.commands.outputs import output_name, replicates_bar, show, write_outputs
from asdf.errors import AsdfError, UsageError
from asdf.metrics.detection import with_costs
from asdf.metrics.tandem import TANDEM, TandemCost, TandemPath
from asdf.runs.files import write_text
from asdf.runs.streams import input_name, show_error
from asdf.tables.renderers import (
    PACKAGES,
    as_csv,
    as_json,
    as_latex,
    as_lines,
    as_sheet,
    bounds_records,
    records_of,
)
from asdf.tables.table import Column, Columns, Table, Value, counts, each, rate, texts
from asdf.tasks.sasv.sasv_files import (
    SasvScores,
    SasvTrials,
    join_systems,
    read_sasv_keys,
    read_sasv_scores,
    with_keys,
    write_sasv_scores,
)
from asdf.tasks.sasv.sasv_measures import (
    SasvCondition,
    SasvResult,
    SasvSummary,
    fit_fusion,
    summarise_sasv,
    tandem_path,
)

_COSTS = {
    "p_target": "target_prior",
    "p_nontarget": "nontarget_prior",
    "p_spoof": "spoof_prior",
    "cost_miss": "miss",
    "cost_fa": "false_alarm",
    "cost_spoof": "spoof_false_alarm",
}


@dataclass(frozen=True)
class _Scored:
    """A system with its scores; `are_llrs` if a fusion made log-likelihood ratios."""

    name: str
    scores: SasvScores
    are_llrs: bool = False


def evaluate(args: EvaluateOptions, named: Sequence[System], screen: TextIO) -> None:
    """Write the requested files, and print the metrics on `screen`.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    cost = with_costs(TANDEM, args.costs, _COSTS)
    _check(args, named)
    keys = read_sasv_keys(args.keys) if args.keys else None
    if keys is not None and args.asv_scores:
        systems = [_Scored("CM and ASV", _join(keys, named[0].path, args.asv_scores))]
    else:
        systems = [_Scored(one.name, _read_scores(one.path, keys)) for one in named]
    if args.fuse:
        systems = fuse(args, systems[0], cost)
    summaries = [summarise(args, scored, cost) for scored in systems]
    # The fused system is the last one, and --path without a fusion is of a single system.
    scores = systems[-1].scores
    write_outputs(
        [
            (args.json, lambda path: write_text(path, sasv_json(summaries))),
            (args.csv, lambda path: write_text(path, sasv_csv(summaries))),
            (args.latex, lambda path: write_text(path, sasv_latex(summaries))),
            (args.path, lambda path: write_text(path, path_csv(tandem_path(scores)))),
            (args.submission, lambda path: write_sasv_scores(path, scores)),
        ]
    )
    for index, summary in enumerate(summaries):
        show(("\n" if index else "") + sasv_text(summary), screen)
        for column, values in summary.left_out.items():
            show_error(
                f"warning: {summary.name}: by {column}: omitted because target, nontarget or "
                f"spoof trials are missing: {', '.join(values[:8])} ({len(values)} values)."
            )
    if len(summaries) > 1:
        show("\n" + sasv_systems_text(summaries), screen)
    if args.submission:
        written = output_name(args.submission)
        show(f"written to {written}: {len(scores.trials)} trials", screen)


def _read_scores(path: Path, keys: SasvTrials | None) -> SasvScores:
    scores = read_sasv_scores(path)
    if keys is not None:
        return with_keys(scores, keys, input_name(path))
    if scores.trials.kinds is None:
        raise UsageError(
            f"{input_name(path)} does not contain the keys of the trials (target, nontarget or "
            "spoof). Give them with --keys."
        )
    return scores


def _join(keys: SasvTrials, cm: Path, asv: Path) -> SasvScores:
    from asdf.trials.formats import read_score_file

    paths = (input_name(cm), input_name(asv))
    return join_systems(keys, read_score_file(cm), read_sasv_scores(asv), paths)


def fuse(args: EvaluateOptions, system: _Scored, cost: TandemCost) -> list[_Scored]:
    """Return each system that decides by itself, before the fusion, and the fused one."""
    assert args.fuse is not None
    development = None
    keys = read_sasv_keys(args.on_keys) if args.on_keys else None
    files = list(map(Path, development_files(args.on)))
    if len(files) == 2 and keys is not None:
        development = _join(keys, *files)
    elif files:
        development = _read_scores(files[0], keys)
    fusion = fit_fusion(args.fuse, development, cost)
    trials = system.scores.trials
    known = [] if development is None else development.trials.names()
    shared = len(set(known).intersection(trials.names()))
    if shared:
        show_error(
            f"warning: {shared} of the {len(trials)} trials are also in the development set, so "
            "the fusion looks better than on new trials."
        )
    fused = fusion.apply(system.scores)
    show_error(f"fusion: {fusion.describe()}")
    return [
        *([system] if system.scores.sasv is not None else []),
        _Scored("ASV alone", SasvScores(trials, sasv=system.scores.asv)),
        _Scored("CM alone", SasvScores(trials, sasv=system.scores.cm)),
        _Scored(f"fused ({fusion.kind})", fused, fusion.are_llrs),
    ]


def summarise(args: EvaluateOptions, system: _Scored, cost: TandemCost) -> SasvSummary:
    existing = system.scores.trials.columns
    by = ["attack"] if "attack" in existing else []
    if args.by is not None:
        by = list(filter(None, map(str.strip, args.by.split(","))))
    unknown = [name for name in by if name not in existing]
    if unknown:
        known = ", ".join(existing) or "none"
        raise UsageError(f"--by {args.by}: the keys have no column {unknown[0]}. Columns: {known}.")
    with replicates_bar(f"intervals of {system.name}") as progress:
        try:
            return summarise_sasv(
                system.name,
                system.scores,
                cost=cost,
                by=by,
                replicates=args.replicates,
                are_llrs=args.llr or system.are_llrs,
                progress=progress,
            )
        except AsdfError as error:
            raise AsdfError(f"{system.name}: {error}") from None


def _check(args: EvaluateOptions, named: Sequence[System]) -> None:
    """Raise UsageError for contradictory options."""
    if not named:
        raise UsageError("give the score files to evaluate.")
    if args.asv_scores and not args.keys:
        raise UsageError("--asv-scores of SASV needs the keys of the trials. Give --keys too.")
    if not args.fuse and (args.on or args.on_keys or args.submission):
        raise UsageError("--on and --submission need a fusion. Give --fuse too.")
    if len(development_files(args.on)) == 2 and not args.on_keys:
        raise UsageError("--on CM,ASV needs the keys of the development set. Give --on-keys too.")
    if args.on_keys and not args.on:
        raise UsageError("--on-keys needs the scores of the development set. Give --on too.")
    if (args.fuse or args.path or args.asv_scores) and len(named) > 1:
        raise UsageError(
            "--fuse, --path and --asv-scores work with a single system. Give one score file."
        )


# Number of metrics in a row of 80 characters.
_IN_A_ROW = 6


_A_DCF = Column("a_dcf", "min a-DCF")
_UNRANKED: dict[str, Any] = {"in_papers": False, "lower_is_better": None}
# Each is a field of `SasvResult`.
_METRICS = (
    _A_DCF,
    Column("a_dcf_threshold", "a-DCF threshold", **_UNRANKED),
    Column("act_a_dcf", "act a-DCF"),
    rate("sasv_eer", "SASV-EER", 3, states_unit=True),
    rate("sv_eer", "SV-EER", 3, states_unit=True),
    rate("spf_eer", "SPF-EER", 3, states_unit=True),
    rate("t_eer", "t-EER", 3, states_unit=True),
    Column("t_eer_asv_threshold", "t-EER ASV threshold", **_UNRANKED),
    Column("t_eer_cm_threshold", "t-EER CM threshold", **_UNRANKED),
    Column("min_tdcf", "min t-DCF"),
    rate("asv_eer", "ASV EER", 3, states_unit=True),
    rate("cm_eer", "CM EER", 3, states_unit=True),
)


def sasv_text(summary: SasvSummary) -> str:
    """Return all results of one system, without a final line break."""
    known = summary.result
    total = known.target + known.nontarget + known.spoof
    drawn_of = {"trials": summary.intervals, "claimed speakers": summary.speaker_intervals}
    kinds = f"{known.target} target, {known.nontarget} nontarget, {known.spoof} spoof"
    values: Columns = [texts("trials", [f"{total}: {kinds}"])]
    for metric in _METRICS:
        over = {kind: of[metric.key] for kind, of in drawn_of.items() if metric.key in of}
        values.append((metric, [Value(getattr(known, metric.key), over)]))
    lines = as_sheet(Table([summary.name], values))
    for column in _conditions_of(summary):
        conditions = _of_column(summary, column)
        results = [*each(conditions, "result"), known]
        columns = _columns(results, [summary])[:_IN_A_ROW]
        columns.append(counts("spoof", each(results, "spoof")))
        table = Table([*each(conditions, "value"), "pooled"], columns, column)
        lines += ["", f"  by {column}:", *as_lines(table)]
    return "\n".join(lines)


def sasv_systems_text(summaries: Sequence[SasvSummary]) -> str:
    """Return systems in rows."""
    columns = _columns(each(summaries, "result"), summaries)[:_IN_A_ROW]
    # They form one block of any width.
    return "\n".join(as_lines(Table(each(summaries, "name"), columns)))


def results_tables(summary: SasvSummary) -> tuple[Table, Table]:
    """Return all results of a system for programs, and those of its conditions, a row each."""
    conditions = summary.conditions
    values = texts("value", each(conditions, "value"))
    of_conditions = each(conditions, "result")
    whole: Columns = []
    by_value: Columns = [values]
    # All metrics have a column, including those that no system of this table has.
    for key in each(fields(SasvResult), "name"):
        whole.append(Column(key, key).with_values([getattr(summary.result, key)]))
        by_value.append(Column(key, key).with_values(each(of_conditions, key)))
    names = each(conditions, "column")
    return Table([summary.name], whole, "system"), Table(names, by_value, "column")


def sasv_json(summaries: Sequence[SasvSummary]) -> str:
    """Return a list with a record for each system."""
    records = []
    for summary in summaries:
        whole, conditions = results_tables(summary)
        (record,) = records_of(whole, is_whole=True)
        record["cost"] = asdict(summary.cost)
        record["intervals_95"] = {
            "trials": bounds_records(summary.intervals),
            "speakers": bounds_records(summary.speaker_intervals),
        }
        records.append({**record, "conditions": records_of(conditions, is_whole=True)})
    return as_json(records)


def sasv_csv(summaries: Sequence[SasvSummary]) -> str:
    """Return a row for each system and each of its conditions."""
    rows = []
    for summary in summaries:
        known = map(records_of, results_tables(summary))
        rows += [{"system": summary.name, **record} for record in chain(*known)]
    return as_csv(["system", "column", "value", *each(fields(SasvResult), "name")], rows)


def sasv_latex(summaries: Sequence[SasvSummary]) -> str:
    """Return tables of systems by metric and, for each column, of a-DCFs by condition."""
    names = each(summaries, "name")
    columns = _columns(each(summaries, "result"), summaries)
    parts = [as_latex(Table(names, columns, "System", ["rates in per cent"]))]
    by = dict.fromkeys(column for summary in summaries for column in _conditions_of(summary))
    for column in by:
        by_value: dict[str, list[float | None]] = {}
        for index, summary in enumerate(summaries):
            for condition in _of_column(summary, column):
                known = by_value.setdefault(condition.value, [None] * len(summaries))
                known[index] = condition.result.a_dcf
        by_value["pooled"] = each(summaries, "result.a_dcf")
        of_values = by_value.items()
        columns = [replace(_A_DCF, name=value).with_values(known) for value, known in of_values]
        parts.append(f"% min a-DCF by {column}\n{as_latex(Table(names, columns, 'System'))}")
    return PACKAGES + "\n".join(parts)


def _conditions_of(summary: SasvSummary) -> list[str]:
    return list(dict.fromkeys(each(summary.conditions, "column")))


def _of_column(summary: SasvSummary, column: str) -> list[SasvCondition]:
    return [condition for condition in summary.conditions if condition.column == column]


def _columns(results: Sequence[SasvResult], summaries: Sequence[SasvSummary]) -> Columns:
    """Return the values of some results by the metrics of tables that any system has."""
    columns: Columns = []
    for metric in _METRICS:
        is_known = set(each(summaries, f"result.{metric.key}")) != {None}
        if metric.in_papers and is_known:
            columns.append(metric.with_values(each(results, metric.key)))
    return columns


def path_csv(curve: TandemPath) -> str:
    """Return the t-EER path: pairs of thresholds with equal tandem rates, and the rate."""
    keys = ("asv_threshold", "cm_threshold", "tandem_eer")
    # At an ASV threshold that rejects all impostors there is no pair.
    exists = np.isfinite(curve.gaps)
    rows = np.stack([curve.asv_thresholds, curve.cm_thresholds, curve.rates], axis=1)[exists]
    return as_csv(keys, [dict(zip(keys, row, strict=True)) for row in rows.tolist()])
