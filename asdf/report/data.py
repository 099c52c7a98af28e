"""What the page's script draws: curves, histograms and training courses as JSON.

Invariant: the JSON is a valid JavaScript literal that holds no `<`, `>` or `&`, so that no name in
it can end the element that it stands in or begin another.
"""

from __future__ import annotations

import json
from typing import Any

from asdf.report.courses import TrainingCourse, training_course
from asdf.report.curves import DET_TICKS
from asdf.report.gathering import Gathered
from asdf.report.measurement import Measurement

TICKED = 8
"""How many systems the plots show at first: of more lines none can be followed."""

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """Return the value for a `<script type="application/json">`; keys keep their order.

    Raises:
        ValueError: a number is not finite.
    """
    # A NaN is not JSON: the page's script would stop at it without a word.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return everything that is drawn; rates and EERs in %."""
    sets = {}
    for set_name in gathered.sets:
        sets[set_name] = list(map(_measurement_record, gathered.on(set_name)))
    return {
        "ticks": DET_TICKS,
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "hidden": sorted(hidden_names(gathered)),
        "sets": sets,
        "runs": list(map(_course_record, training_courses(gathered))),
    }


def hidden_names(gathered: Gathered) -> set[str]:
    """Return the systems and runs that plots do not show until they are ticked."""
    # Systems that are several networks of one run have longer names than the run.
    runs = [name for name in gathered.names if name not in gathered.systems]
    return {*gathered.systems[TICKED:], *runs[TICKED:]}


def training_courses(gathered: Gathered) -> list[TrainingCourse]:
    """Return how the training of each run went."""
    courses = []
    for index, run in enumerate(gathered.runs):
        name = gathered.names[index]
        courses.append(training_course(name, run.training(), gathered.networks_of(index)))
    return courses


def _measurement_record(measured: Measurement) -> dict[str, Any]:
    counts = measured.histogram
    eers = {}
    rates = {}
    thresholds = {}
    points = {}
    spoofs = {}
    # All spoofs, then those attacks that the page has room for.
    for name in ("", *measured.page_attacks):
        curve = measured.curves[name]
        eers[name] = 100 * curve.eer
        rates[name] = curve.rates
        thresholds[name] = curve.thresholds
        points[name] = curve.eer_point
        spoofs[name] = counts.spoof[name]
    return {
        "system": measured.system,
        "threshold": measured.summary.result.eer_threshold,
        "eer": eers,
        "curves": rates,
        "thresholds": thresholds,
        "eer_points": points,
        "histogram": {
            "low": counts.low,
            "high": counts.high,
            "bona_fide": counts.bona_fide,
            "spoof": spoofs,
        },
    }


def _course_record(course: TrainingCourse) -> dict[str, Any]:
    return {
        "name": course.name,
        "loss": course.loss,
        "course": course.smooth_loss,
        "rate": course.learning_rate,
        "eer": course.eers,
        "losses": course.losses,
        "chosen": course.chosen,
    }
