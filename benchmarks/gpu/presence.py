"""Which settings this version has: a check of a missing one says NOT RUN."""

from __future__ import annotations

import typing

from asdf.settings.sections import Sections


def has_setting(name: str) -> bool:
    """Whether there is a setting such as 'computing.deterministic'."""
    section, _, setting = name.partition(".")
    return hasattr(getattr(Sections(), section, None), setting)


def takes_value(name: str, value: str) -> bool:
    """Whether a setting of named choices has this one."""
    section, _, setting = name.partition(".")
    if not has_setting(name):
        return False
    kinds = typing.get_type_hints(type(getattr(Sections(), section)))
    return value in typing.get_args(kinds[setting])


def missing(name: str) -> str:
    """The reason of a check that needs a setting which does not exist."""
    return f"this version has no {name}"


def apply(settings: Sections, values: dict[str, typing.Any]) -> Sections:
    """Set values by their names, and give `settings` back."""
    for name, value in values.items():
        section, _, setting = name.partition(".")
        setattr(getattr(settings, section), setting, value)
    return settings
