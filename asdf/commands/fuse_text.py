"""What `python -m asdf fuse` shows and writes as JSON of a fusion and its gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from asdf.commands.fuse_scores import Applied, DevelopmentSet
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT, Interval, Intervals, paired_test
from asdf.metrics.fusion import METHODS
from asdf.metrics.results import Result, evaluate
from asdf.tasks.fusion.gain import FusionGain
from asdf.text import aligned, p_value_text

_HEADER = ("system", "EER %", "minDCF", "Cllr bits", "weight", "in the folds")
_NUMBERS = (1, 2, 3, 4)
_FUSED = "fusion"


def gain_text(development: DevelopmentSet, measured: FusionGain) -> str:
    """Return the fusion, its systems and its gain on the development set."""
    result = measured.result
    trials = result.bona_fide + result.spoof
    on_set = f" on {development.set}" if development.set else ""
    groups = "trials" if development.speakers is None else "speakers"
    folds = len(measured.members[0].fold_weights)
    rows: list[Sequence[str]] = [_HEADER]
    for member in measured.members:
        cllr = "-" if member.cllr is None else f"{member.cllr:.4f}"
        weights = f"{min(member.fold_weights):.4g} .. {max(member.fold_weights):.4g}"
        rows.append((*_cells(member.name, member.result), cllr, f"{member.weight:.4g}", weights))
    rows.append((*_cells(_FUSED, result), f"{result.cllr:.4f}", "", ""))
    lines = [
        f"fusion of {len(measured.members)} systems{on_set}: {trials} trials, {result.bona_fide} "
        f"bona fide, {result.spoof} spoof",
        f"{measured.fusion.method}: {METHODS[measured.fusion.method]}",
        f"cross-validated in {folds} folds of {groups}: none is fused by weights fitted to it",
        "",
        *aligned(rows, right=_NUMBERS),
        "",
        "Cllr is of scores calibrated on the other folds; EER and minDCF of single systems need "
        "no fit",
    ]
    best = measured.members[measured.best].name
    lines += _difference_lines(best, measured.gain, groups)
    return "\n".join([*lines, *_remarks(measured)])


def applied_text(applied: Applied, measured: FusionGain, replicates: int) -> str:
    """Return the error rates of fused scores on another set, and their gain there."""
    rows: list[Sequence[str]] = [_HEADER[:3]]
    try:
        for name, system in zip(applied.names, applied.systems, strict=True):
            rows.append(_cells(name, evaluate(system)))
        rows.append(_cells(_FUSED, evaluate(applied.fused)))
    except AsdfError as error:
        return f"no error rates: {error}"
    best = measured.best
    gain = None
    if replicates:
        gain = paired_test(applied.systems[best], applied.fused, replicates=replicates)
    # Not the best one here: which it is, no one knows before the trials are labelled.
    lines = ["on the set of --apply, with weights fitted to all trials of the set above", ""]
    lines += aligned(rows, right=_NUMBERS)
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


def _cells(name: str, result: Result) -> tuple[str, str, str]:
    return name, f"{100 * result.eer:.3f}", f"{result.min_dcf:.4f}"


def _difference_lines(best: str, gain: Intervals | None, drawn: str) -> list[str]:
    if gain is None:
        return []
    eer = _difference(gain.eer, 100, 3)
    cost = _difference(gain.min_dcf, 1, 4)
    return [
        f"{_FUSED} - {best}, the best system above (paired bootstrap over {drawn}, two-sided):",
        f"  EER     {eer}",
        f"  minDCF  {cost}",
    ]


def _difference(difference: Interval, unit: float, digits: int) -> str:
    assert difference.p_value is not None
    low = f"{unit * difference.low:+.{digits}f}"
    high = f"{unit * difference.high:+.{digits}f}"
    verdict = "no significant difference"
    if difference.p_value < SIGNIFICANT:
        verdict = "the fusion is better" if difference.value < 0 else "the fusion is worse"
    value = f"{unit * difference.value:+.{digits}f}"
    return f"{value}  95 %: {low} .. {high}  p {p_value_text(difference.p_value)}: {verdict}"


def _remarks(measured: FusionGain) -> list[str]:
    remarks = []
    for member in measured.members:
        if member.weight < 0:
            remarks.append(
                f"{member.name} has a negative weight: it only corrects what it has in common with "
                "the others. See how the fusion does without it."
            )
    return remarks
