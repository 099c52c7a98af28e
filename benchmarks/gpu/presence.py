"""Settings in this version: a check of a missing one is NOT RUN."""

from __future__ import annotations

import typing

from asdf.settings.sections import Sections


def has_setting(name: str) -> bool:
    """Whether a setting exists, such as 'computing.deterministic'."""
    section, _, setting = name.partition(".")
    return hasattr(getattr(Sections(), section, None), setting)


def takes_value(name: str, value: str) -> bool:
    """Whether a setting with named choices accepts this one."""
    section, _, setting = name.partition(".")
    if not has_setting(name):
        return False
    kinds = typing.get_type_hints(type(getattr(Sections(), section)))
    return value in typing.get_args(kinds[setting])


def missing(name: str) -> str:
    """Return the reason of a check that needs a missing setting."""
    return f"this version has no {name}"


def apply(settings: Sections, values: dict[str, typing.Any]) -> Sections:
    """Set values by name, and return `settings`."""
    for name, value in values.items():
        section, _, setting = name.partition(".")
        setattr(getattr(settings, section), setting, value)
    return settings
