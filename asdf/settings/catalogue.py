"""All settings by their full names, read off the dataclasses of `sections.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, get_type_hints

from asdf.settings.mistakes import Complaint, closest, shortened
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
        Complaint: there is none; its advice names the nearest one.
    """
    known = catalogue()
    if target in known:
        return known[target]
    section, _, name = target.rpartition(".")
    if not section:
        problem = f"'{shortened(target)}' names no section; a setting is section.name"
    elif section not in section_types():
        problem = f"there is no section '{shortened(section)}'"
    else:
        problem = f"there is no setting '{shortened(target)}'"
    raise Complaint(problem, advice=partial(_near_settings, section, name))


def _near_settings(section: str, name: str) -> str:
    """A clause that names the setting nearest to this one, or the sections where none is near."""
    namesakes = [setting.full for setting in catalogue().values() if setting.name == name]
    near = namesakes[0] if namesakes else _closest(section, name)
    return (
        f"; the nearest is '{near}'" if near else f"; the sections are {', '.join(section_types())}"
    )


def _closest(section: str, name: str) -> str:
    """The full name nearest to this one: in its own section if there is such a section, else in any."""
    within = section_types().keys() & {section} or section_types().keys()
    names = {
        setting.name: setting.full for setting in catalogue().values() if setting.section in within
    }
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


def class_paths(sections: Sections) -> list[str]:
    """The values of all settings that name a class, the project's and the user's own."""
    paths: list[str] = []
    for known in catalogue().values():
        if known.metadata["check"] == "class_path":
            value = getattr(getattr(sections, known.section), known.name)
            paths += [value] if isinstance(value, str) else value or ()
    return paths
