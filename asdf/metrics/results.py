"""The results of a run: one row a system or epoch and evaluation set, for the eye and for programs.

Invariant: `results.txt` and `results.json` hold the same rows, each file is written whole, and no digit that the
official packages print is rounded away (JSON keeps all of them). EERs are fractions everywhere but in the text, and
each is named with how it was scored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from asdf.metrics.costs import ASVSPOOF5, DetectionCost, act_dcf, cllr, min_dcf_of
from asdf.metrics.detection import DetCurve
from asdf.runs.files import write_text
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.score_file import Scores


@dataclass(frozen=True)
class Result:
    """The metrics of one system on one set; `eer` is a fraction, `bona_fide` and `spoof` count trials."""

    eer: float
    eer_threshold: float
    min_dcf: float
    act_dcf: float
    cllr: float
    bona_fide: int
    spoof: int


class Row(NamedTuple):
    """One line of a table of results; `scored` holds what is known of how."""

    epoch: str
    set: str
    result: Result
    scored: HowScored = NOT_KNOWN


AnyRow = Row | tuple[str, str, Result]
"""A row, or the first three values of one."""

_COLUMNS = ("epoch", "set", "EER %", "minDCF", "threshold", "bona fide", "spoof", "scored")


def evaluate(scores: Scores, cost: DetectionCost = ASVSPOOF5) -> Result:
    """The metrics of `scores`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.
    """
    return _result(scores.det_curve, cost)


def by_condition(
    scores: Scores,
    values: Sequence[str],
    *,
    bona_fide: Literal["all", "same"] = "all",
    cost: DetectionCost = ASVSPOOF5,
) -> dict[str, Result]:
    """The metrics of each condition: the spoofs of each value, in alphabetical order, against bona fide trials.

    `values` names the attack, codec, ... of each trial. 'all': against all bona fide trials, as results by attack are
    published. 'same': against those of the same value, as for codecs; a value that only one class has is left out.

    Raises:
        AsdfError: there is no bona fide or no spoof trial, or a score is not finite.
    """
    column = np.asarray(values)
    if column.shape != (len(scores),):
        raise ValueError(f"{column.size} values for {len(scores)} trials")
    of_bona_fide, of_spoof = column[scores.labels == 1], column[scores.labels == 0]
    results = {}
    for value in np.unique(of_spoof):
        trials = scores.bona_fide if bona_fide == "all" else scores.bona_fide[of_bona_fide == value]
        if trials.size or bona_fide == "all":
            curve = DetCurve.of(trials, scores.spoof[of_spoof == value])
            results[str(value)] = _result(curve, cost)
    return results


def results_table(rows: Sequence[AnyRow]) -> str:
    """The rows (epoch or system, set, result) as aligned text, with a header; ends with a line break."""
    cells = [_COLUMNS, *(_cells(Row(*row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for *names_and_numbers, scored in cells:
        padded = [
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(names_and_numbers, widths, strict=False))
        ]
        lines.append("  ".join([*padded, scored]) + "\n")
    return "".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    result = row.result
    return (
        row.epoch,
        row.set,
        f"{100 * result.eer:.9f}",
        f"{result.min_dcf:.10f}",
        f"{result.eer_threshold:.10f}",
        str(result.bona_fide),
        str(result.spoof),
        row.scored.describe(),
    )


def write_results(folder: str | os.PathLike[str], rows: Sequence[AnyRow]) -> None:
    """Write `results.txt` and `results.json` into `folder`, each atomically and the same bytes for the same rows."""
    records = [_record(Row(*row)) for row in rows]
    write_text(
        Path(folder) / "results.json", json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    )
    write_text(Path(folder) / "results.txt", results_table(rows))


def _record(row: Row) -> dict[str, Any]:
    names = {"epoch": row.epoch, "set": row.set}
    return {**names, **asdict(row.result), **row.scored.record()}


def _result(curve: DetCurve, cost: DetectionCost) -> Result:
    rate, threshold = curve.eer()
    return Result(
        eer=rate,
        eer_threshold=threshold,
        min_dcf=min_dcf_of(curve, cost),
        act_dcf=act_dcf(curve.bona_fide, curve.spoof, cost),
        cllr=cllr(curve.bona_fide, curve.spoof),
        bona_fide=curve.bona_fide.size,
        spoof=curve.spoof.size,
    )
