"""Settings that take a short name of the project's classes, or a class path."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from asdf.settings.catalogue import Known, describe_names
from asdf.settings.mistakes import Complaint
from asdf.settings.sections import KnownNames, setting
from asdf.settings.value_checks import check_value

NAMES = {"cosine": "asdf.x.Cosine", "linear": "asdf.x.Linear"}


@dataclass
class Section(KnownNames):
    """A section with a class and a tuple of classes."""

    schedule: str = setting("cosine", "the schedule", check="class_path", names=NAMES)
    chain: tuple[str, ...] = setting((), "the parts", check="class_path", names=NAMES)


SCHEDULE, CHAIN = (
    Known("section", entry.name, kind, entry.default, entry.metadata)
    for entry, kind in zip(fields(Section), (str, tuple[str, ...]), strict=True)
)


def test_a_short_name_and_a_class_path_fit() -> None:
    assert check_value(SCHEDULE, "linear") == "linear"
    assert check_value(SCHEDULE, "my_schedules.Triangle") == "my_schedules.Triangle"
    assert check_value(CHAIN, ["linear", "mine.Part"]) == ("linear", "mine.Part")


def test_another_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(Complaint) as raised:
        check_value(SCHEDULE, "liner")
    assert str(raised.value) == (
        "'liner' is neither one of 'cosine', 'linear' nor a class path 'package.module.Class'; "
        "the nearest is 'linear'"
    )
    with pytest.raises(Complaint, match="'a b' is neither one of"):
        check_value(CHAIN, ("cosine", "a b"))


def test_the_names_are_described() -> None:
    assert describe_names(SCHEDULE) == "'cosine', 'linear' or a class path"
    assert describe_names(CHAIN) == "'cosine', 'linear' or class paths"
