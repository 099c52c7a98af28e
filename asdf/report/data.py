"""What the page's script draws: curves, histograms and training courses as JSON.

Invariant: the JSON is a valid JavaScript literal that holds no `<`, `>` or `&`, so that no name in
it can end the element that it stands in or begin another.
"""

from __future__ import annotations

import json
from typing import Any

from asdf.report.courses import TrainingCourse, training_course
from asdf.report.curves import DET_TICKS
from asdf.report.gathering import Gathered, Measurement

TICKED = 8
"""How many systems the plots show at first: of more lines none can be followed."""

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """Return the value for a `<script type="application/json">`; keys keep their order.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return everything that is drawn; rates and EERs in %."""
    sets = {}
    for set_name in gathered.sets:
        sets[set_name] = [_measurement_record(measured) for measured in gathered.on(set_name)]
    return {
        "ticks": DET_TICKS,
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "sets": sets,
        "runs": [_course_record(course) for course in training_courses(gathered)],
    }


def training_courses(gathered: Gathered) -> list[TrainingCourse]:
    """Return how the training of each run went."""
    courses = []
    for index, run in enumerate(gathered.runs):
        name = gathered.names[index]
        courses.append(training_course(name, run.training(), gathered.networks_of(index)))
    return courses


def _measurement_record(measured: Measurement) -> dict[str, Any]:
    names = ["", *measured.page_attacks]
    counts = measured.histogram
    return {
        "system": measured.system,
        "threshold": measured.summary.result.eer_threshold,
        "eer": {name: 100 * measured.curves[name].eer for name in names},
        "curves": {name: measured.curves[name].rates for name in names},
        "thresholds": {name: measured.curves[name].thresholds for name in names},
        "histogram": {
            "low": counts.low,
            "high": counts.high,
            "bona_fide": counts.bona_fide,
            "spoof": {name: counts.spoof[name] for name in names},
        },
    }


def _course_record(course: TrainingCourse) -> dict[str, Any]:
    return {
        "name": course.name,
        "loss": course.loss,
        "course": course.smooth_loss,
        "rate": course.learning_rate,
        "eer": course.eers,
        "chosen": course.chosen,
    }
