"""What the page's script draws: curves, histograms and training records as JSON.

Invariant: the JSON is a valid JavaScript literal that holds no `<`, `>` or `&`, so that no name in it can end the
element that it stands in or begin another.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from asdf.evaluation.report.curves import DET_TICKS, averaged, thinned
from asdf.evaluation.report.gathering import Gathered, Measurement
from asdf.evaluation.report.runs import evaluations

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
        "sets": {name: [_measured(one) for one in gathered.on(name)] for name in gathered.sets},
        "runs": [
            {"name": name, **_training(run.training())} for name, run in zip(gathered.names, gathered.runs, strict=True)
        ],
    }


def _measured(one: Measurement) -> dict[str, Any]:
    attacks = {condition.value: condition.result.eer for condition in one.summary.of_column("attack")}
    eers = {"": one.summary.result.eer, **attacks}
    return {
        "system": one.system,
        "threshold": one.summary.result.eer_threshold,
        "eer": {name: 100 * eers[name] for name in one.curves},
        "curves": one.curves,
        "histogram": asdict(one.histogram),
    }


def _training(records: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [one for one in records if one.get("kind") == "step" and _number(one.get("epoch"))]
    eers: dict[str, list[float]] = {}
    for one in evaluations(records):
        for name, eer in one["eer"].items():
            if _number(eer) and _number(one.get("epoch")):
                eers.setdefault(name, []).extend([one["epoch"], round(100 * eer, 6)])
    losses, rates = _series(steps, "loss"), _series(steps, "learning_rate")
    return {"loss": thinned(*losses), "course": averaged(*losses), "rate": thinned(*rates), "eer": eers}


def _series(steps: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Epochs and values; those that are no finite number, as a loss that diverged, are left out."""
    there = [one for one in steps if _number(one.get(name))]
    return [one["epoch"] for one in there], [one[name] for one in there]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < float("inf")
