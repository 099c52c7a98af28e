"""What the page's script draws: curves, histograms and training records as JSON.

Invariant: the JSON is a valid JavaScript literal that holds no `<`, `>` or `&`, so that no name in it can end the
element that it stands in or begin another.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from asdf.report.curves import DET_TICKS, averaged, thinned
from asdf.report.gathering import Gathered, Measurement
from asdf.report.runs import evaluations

TICKED = 8
"""How many systems the plots show at first: more lines cannot be told apart."""

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """The value for a `<script type="application/json">`; keys keep their order.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Everything that is drawn; rates and EERs in %."""
    return {
        "ticks": DET_TICKS,
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "sets": {name: [_measured(one) for one in gathered.on(name)] for name in gathered.sets},
        "runs": page_training(gathered),
    }


def page_training(gathered: Gathered) -> list[dict[str, Any]]:
    """How the training of each run went: [epoch, value, epoch, value, ...] of each course; EERs in %."""
    runs = zip(gathered.names, gathered.runs, strict=True)
    return [
        {"name": name, **_training(run.training()), "chosen": _chosen_epochs(gathered, number)}
        for number, (name, run) in enumerate(runs)
    ]


def _measured(one: Measurement) -> dict[str, Any]:
    attacks = {
        condition.value: condition.result.eer for condition in one.summary.of_column("attack")
    }
    eers = {"": one.summary.result.eer, **attacks}
    return {
        "system": one.system,
        "threshold": one.summary.result.eer_threshold,
        "eer": {name: 100 * eers[name] for name in one.curves},
        "curves": {name: curve.rates for name, curve in one.curves.items()},
        "thresholds": {name: curve.thresholds for name, curve in one.curves.items()},
        "histogram": asdict(one.histogram),
    }


def _chosen_epochs(gathered: Gathered, number: int) -> list[float]:
    """At which epochs of a run the networks were written whose results are shown."""
    shown = {one.network for one in gathered.measurements if one.run == number}
    return [
        record["epoch"]
        for record in evaluations(gathered.runs[number].training())
        if str(record.get("network")).removesuffix(".pt") in shown and _number(record.get("epoch"))
    ]


def _training(records: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [one for one in records if one.get("kind") == "step" and _number(one.get("epoch"))]
    eers: dict[str, list[float]] = {}
    for one in evaluations(records):
        for name, eer in one["eer"].items():
            if _number(eer) and _number(one.get("epoch")):
                eers.setdefault(name, []).extend([one["epoch"], round(100 * eer, 6)])
    losses, rates = _series(steps, "loss"), _series(steps, "learning_rate")
    return {
        "loss": thinned(*losses),
        "course": averaged(*losses),
        "rate": thinned(*rates),
        "eer": eers,
    }


def _series(steps: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Epochs and values; those that are no finite number, as a loss that diverged, are left out."""
    there = [one for one in steps if _number(one.get(name))]
    return [one["epoch"] for one in there], [one[name] for one in there]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < float("inf")
