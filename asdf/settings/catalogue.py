"""All settings by their full names, read off the dataclasses of `sections.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from asdf.settings.mistakes import Complaint, closest
from asdf.settings.sections import Sections


@dataclass(frozen=True)
class Known:
    """A setting: its names, its type, its default, and the metadata that `sections.setting` gave it."""

    section: str
    name: str
    annotation: Any
    default: Any
    metadata: Mapping[str, Any]

    @property
    def full(self) -> str:
        """The name as configs write it: section.name."""
        return f"{self.section}.{self.name}"


@cache
def catalogue() -> dict[str, Known]:
    """Every setting by its full name, in the order of `sections.py`."""
    known = {}
    for section, kind in section_types().items():
        hints = get_type_hints(kind)
        for entry in fields(kind):
            setting = Known(section, entry.name, hints[entry.name], entry.default, entry.metadata)
            known[setting.full] = setting
    return known


@cache
def section_types() -> dict[str, type]:
    """The dataclass of each section by the section's name."""
    hints = get_type_hints(Sections)
    return {entry.name: hints[entry.name] for entry in fields(Sections)}


def look_up(target: str) -> Known:
    """The setting of this full name.

    Raises:
        Complaint: there is none; names the nearest one.
    """
    known = catalogue()
    if target in known:
        return known[target]
    section, _, name = target.rpartition(".")
    if not section:
        problem = f"'{target}' names no section; a setting is section.name"
    elif section not in section_types():
        problem = f"there is no section '{section}'"
    else:
        problem = f"there is no setting '{target}'"
    namesakes = [setting.full for setting in known.values() if setting.name == name]
    near = namesakes[0] if namesakes else _closest(section, name)
    if near:
        raise Complaint(f"{problem}; the nearest is '{near}'")
    raise Complaint(f"{problem}; the sections are {', '.join(section_types())}")


def _closest(section: str, name: str) -> str:
    """The full name nearest to this one: in its own section if there is such a section, else in any."""
    within = section_types().keys() & {section} or section_types().keys()
    names = {setting.name: setting.full for setting in catalogue().values() if setting.section in within}
    return names.get(closest(name, names), "")


def look_up_part(what: str) -> list[Known]:
    """The settings that a full name, or a section's name, stands for; all of them for an empty name.

    Raises:
        Complaint: it stands for none.
    """
    if not what:
        return list(catalogue().values())
    if what in section_types():
        return [setting for setting in catalogue().values() if setting.section == what]
    return [look_up(what)]
