"""Text and JSON of a fusion and its gain, for `python -m asdf fuse`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT, Intervals, paired_test
from asdf.metrics.fusion import METHODS
from asdf.metrics.metric_columns import EER, MIN_DCF
from asdf.metrics.results import Result, evaluate
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Column, Columns, Table, each, texts
from asdf.tasks.fusion.commands.fuse_scores import Applied, DevelopmentSet
from asdf.tasks.fusion.gain import FusionGain
from asdf.text import p_value_text

_FUSED = "fusion"


def gain_text(development: DevelopmentSet, measured: FusionGain) -> str:
    """Return the fusion, its systems and its gain on the development set."""
    result = measured.result
    trials = result.bona_fide + result.spoof
    on_set = f" on {development.set}" if development.set else ""
    groups = "trials" if development.speakers is None else "speakers"
    folds = len(measured.members[0].fold_weights)
    members = measured.members
    names = [*(member.name for member in members), _FUSED]
    columns = _rate_columns([*(member.result for member in members), result])
    calibrated = [*(member.cllr for member in members), result.cllr]
    columns.append(Column("cllr", "Cllr bits").with_values(calibrated))
    ends = [(min(member.fold_weights), max(member.fold_weights)) for member in members]
    columns += [
        texts("weight", [*(f"{member.weight:.4g}" for member in members), ""]),
        texts("in the folds", [*(f"{a:.4g} .. {b:.4g}" for a, b in ends), ""], is_left=True),
    ]
    lines = [
        f"fusion of {len(measured.members)} systems{on_set}: {trials} trials, {result.bona_fide} "
        f"bona fide, {result.spoof} spoof",
        f"{measured.fusion.method}: {METHODS[measured.fusion.method]}",
        f"cross-validated in {folds} folds of {groups}: none is fused by weights fitted to it",
        "",
        *as_lines(Table(names, columns, "system")),
        "",
        "Cllr is of scores calibrated on the other folds; EER and minDCF of single systems need "
        "no fit",
    ]
    best = measured.members[measured.best].name
    lines += _difference_lines(best, measured.gain, groups)
    return "\n".join([*lines, *_remarks(measured)])


def applied_text(applied: Applied, measured: FusionGain, replicates: int) -> str:
    """Return the error rates of fused scores on another set, and their gain there."""
    try:
        columns = _rate_columns([evaluate(known) for known in (*applied.systems, applied.fused)])
    # A set of one class has no error rates, but its fused scores are written.
    except AsdfError as error:
        return f"no error rates: {error}"
    best = measured.best
    gain = None
    if replicates:
        gain = paired_test(applied.systems[best], applied.fused, replicates=replicates)
    # The gain is relative to the best system of the development set, not of this set.
    lines = ["on the set of --apply, with weights fitted to all trials of the set above", ""]
    lines += as_lines(Table([*applied.names, _FUSED], columns, "system"))
    return "\n".join([*lines, "", *_difference_lines(applied.names[best], gain, "trials")])


def gain_record(development: DevelopmentSet, measured: FusionGain) -> dict[str, Any]:
    """Return all numbers of a fusion as JSON values; error rates are fractions."""
    systems = []
    for member, path in zip(measured.members, development.paths, strict=True):
        systems.append({**asdict(member), "scores": str(path)})
    return {
        "set": development.set,
        "fusion": measured.fusion.content(),
        "systems": systems,
        "fused": asdict(measured.result),
        "best_system": measured.members[measured.best].name,
        "gain": None if measured.gain is None else asdict(measured.gain),
        "drawn_over": "trials" if development.speakers is None else "speakers",
    }


def _rate_columns(results: Sequence[Result]) -> Columns:
    metrics = [replace(metric, marked=False) for metric in (EER, MIN_DCF)]
    return [metric.with_values(each(results, metric.key)) for metric in metrics]


def _difference_lines(best: str, gain: Intervals | None, drawn: str) -> list[str]:
    if gain is None:
        return []
    lines = [
        f"{_FUSED} - {best}, the best system above (paired bootstrap over {drawn}, two-sided):"
    ]
    for metric, tested in ((EER, gain.eer), (MIN_DCF, gain.min_dcf)):
        # A paired test always has one.
        assert tested.p_value is not None
        verdict = "no significant difference"
        if tested.p_value < SIGNIFICANT:
            verdict = "the fusion is better" if tested.value < 0 else "the fusion is worse"
        value, bounds, _ = metric.format_difference(tested)
        shown = f"{value}  95 %: {bounds}  p {p_value_text(tested.p_value)}: {verdict}"
        lines.append(f"  {metric.name:<6}  {shown}")
    return lines


def _remarks(measured: FusionGain) -> list[str]:
    remarks = []
    for member in measured.members:
        if member.weight < 0:
            remarks.append(
                f"{member.name} has a negative weight: it only corrects errors that it shares with "
                "the others. Compare with a fusion without it."
            )
    return remarks
