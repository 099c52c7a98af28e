"""Data of the page's script: the points of DET curves and training courses as JSON.

Invariant: the JSON is a valid JavaScript literal without `<`, `>` and `&`, so that no name in it
can close its element or open another.
"""

from __future__ import annotations

import json
from typing import Any

from asdf.report.courses import TrainingCourse, training_course
from asdf.report.gathering import Gathered, Measurement

TICKED = 8
"""Number of systems that plots show at first; more lines cannot be distinguished."""

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """Return the value as text for `<script type="application/json">`, keeping the order of keys.

    Raises:
        ValueError: a number is not finite.
    """
    # NaN is not valid JSON: the page's script would stop there silently.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return the data of the page's script; rates and EERs are in %."""
    sets = {}
    for set_name in gathered.sets:
        sets[set_name] = list(map(_measurement_record, gathered.on(set_name)))
    return {
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "hidden": sorted(hidden_names(gathered)),
        "sets": sets,
        "runs": list(map(_course_record, training_courses(gathered))),
    }


def hidden_names(gathered: Gathered) -> set[str]:
    """Return the systems and runs that plots hide until they are ticked."""
    # If several networks of one run are systems, their names are longer than the run's.
    runs = [name for name in gathered.names if name not in gathered.systems]
    return {*gathered.systems[TICKED:], *runs[TICKED:]}


def training_courses(gathered: Gathered) -> list[TrainingCourse]:
    """Return the training course of each run."""
    courses = []
    for index, run in enumerate(gathered.runs):
        name = gathered.names[index]
        courses.append(training_course(name, run.training(), gathered.networks_of(index)))
    return courses


def _measurement_record(measured: Measurement) -> dict[str, Any]:
    """Return the curves of all spoofs, named '', and of the attacks that fit on the page."""
    curves = {name: measured.curves[name] for name in ("", *measured.page_attacks)}
    return {
        "curves": {name: curve.rates for name, curve in curves.items()},
        "thresholds": {name: curve.thresholds for name, curve in curves.items()},
    }


def _course_record(course: TrainingCourse) -> dict[str, Any]:
    """Return the courses by the words of `Line.series`."""
    return {
        "name": course.name,
        "loss": course.loss,
        "rate": course.learning_rate,
        "eer": course.eers,
        "losses": course.losses,
        "term": course.terms,
    }
