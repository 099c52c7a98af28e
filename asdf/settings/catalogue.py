"""All settings by their full names, collected from the dataclasses in `sections`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, get_origin, get_type_hints

from asdf.removed import ours_for
from asdf.runs.log import LOG
from asdf.settings.class_files import meanings
from asdf.settings.fields import PLAIN
from asdf.settings.mistakes import Complaint, shortened
from asdf.settings.sections import Sections
from asdf.text import closest


@dataclass(frozen=True)
class Known:
    """A setting: its name, type and default, and the metadata of `fields.setting`."""

    section: str
    name: str
    annotation: Any
    default: Any
    metadata: Mapping[str, Any]
    declared_in: type | None = None

    @property
    def full(self) -> str:
        """Return the name as configs write it: section.name."""
        return f"{self.section}.{self.name}"

    @property
    def meaning(self) -> str:
        """Return its line of documentation."""
        below = meanings(self.declared_in) if self.declared_in else {}
        return str(self.metadata["meaning"] or below.get(self.name, ""))


@dataclass(frozen=True)
class Catalogue:
    """The settings that a config may set: the project's, and those declared by its classes.

    Attributes:
        sections: Dataclass of each section, by name.
        settings: Settings by full name.
    """

    sections: Mapping[str, type]
    settings: Mapping[str, Known]

    @property
    def declared(self) -> dict[str, type]:
        """The sections that are declared by classes outside the project."""
        ours = section_types()
        return {name: kind for name, kind in self.sections.items() if name not in ours}

    def with_sections(self, declared: Mapping[str, type]) -> Catalogue:
        """Return the catalogue with sections added or replaced by name."""
        if not declared:
            return self
        # A class of the same section, named in a higher layer, may have other settings.
        settings = {
            name: known for name, known in self.settings.items() if known.section not in declared
        }
        for section, kind in declared.items():
            settings |= settings_of(section, kind)
        return Catalogue({**self.sections, **declared}, settings)

    def look_up(self, target: str) -> Known:
        """Return the setting with this full name.

        Raises:
            Complaint: the setting does not exist; it says what is meant, or the nearest one.
        """
        if target in self.settings:
            return self.settings[target]
        section, _, name = target.rpartition(".")
        if ours_for(name):
            raise Complaint(
                f"'{shortened(target)}' is a word of other frameworks; write {ours_for(name)}"
            )
        if target.startswith("-"):
            problem = f"there is no option '{shortened(target)}'; settings are without dashes"
            name = name.lstrip("-").replace("-", "_")
        elif not section:
            problem = f"'{shortened(target)}' has no section; write section.name"
        elif section not in self.sections:
            problem = f"there is no section '{shortened(section)}'"
        else:
            problem = f"there is no setting '{shortened(target)}'"

        # Called only for the mistakes that a message shows: near names take long to find.
        def advise() -> str:
            # The right name in the wrong section is the most likely mistake.
            same = [known.full for known in self.settings.values() if known.name == name]
            # Else the nearest in its section if that exists, or in any.
            known_here = self.part(section if section in self.sections else "")
            full = {known.name: known.full for known in known_here}
            found = same[0] if same else full.get(closest(name, full), "")
            return f"; the nearest is '{found}'" if found else listed

        listed = "" if target.startswith("-") else f"; the sections are {', '.join(self.sections)}"
        raise Complaint(problem, advice=advise)

    def part(self, what: str) -> list[Known]:
        """Return a setting by full name, the settings of a section, or all for an empty name.

        Raises:
            Complaint: the setting or section does not exist.
        """
        settings = list(self.settings.values())
        if not what:
            return settings
        if what in self.sections:
            return [setting for setting in settings if setting.section == what]
        return [self.look_up(what)]


@cache
def our_catalogue() -> Catalogue:
    """Return the project's settings, in the order of `sections`."""
    settings: dict[str, Known] = {}
    for section, kind in section_types().items():
        settings |= settings_of(section, kind)
    return Catalogue(section_types(), settings)


def catalogue() -> Mapping[str, Known]:
    """Return the project's settings by full name."""
    return our_catalogue().settings


@cache
def name_today(name: str, where: str) -> str:
    """Return the name that a setting has today; a remark says so once for each place."""
    today = _names_today().get(name, name)
    if today != name:
        LOG.warning("%s: %s is named %s today.", where, name, today)
    return today


@cache
def _names_today() -> dict[str, str]:
    former = {known.metadata["formerly"]: name for name, known in catalogue().items()}
    former.pop("", None)  # of settings that have kept their names
    return former


@cache
def section_types() -> dict[str, type]:
    """Return the dataclasses of the project's sections by name."""
    hints = get_type_hints(Sections)
    names = [entry.name for entry in fields(Sections) if is_dataclass(hints[entry.name])]
    return {name: hints[name] for name in names}


def settings_of(section: str, kind: type) -> dict[str, Known]:
    """Return the settings of a section's dataclass by full name."""
    # `from __future__ import annotations` leaves the types of fields as texts.
    hints = get_type_hints(kind)
    known = {}
    for entry in fields(kind):
        checks = {**PLAIN, **entry.metadata}
        setting = Known(section, entry.name, hints[entry.name], entry.default, checks, kind)
        known[setting.full] = setting
    return known


def describe_names(known: Known) -> str:
    """Describe the values of a setting with short names: "'sgd', 'adam' or a class path"."""
    several = "class paths" if get_origin(known.annotation) is tuple else "a class path"
    return f"{', '.join(map(repr, known.metadata['names']))} or {several}"


def class_path_of(setting: str, value: str) -> str:
    """Return the class path for a value of `setting`, which may be a short name."""
    names: Mapping[str, str] = catalogue()[setting].metadata["names"]
    return names.get(value, value)


def class_paths(sections: Sections) -> list[str]:
    """Return the class paths that the settings name, both the project's and the user's."""
    paths: list[str] = []
    for setting in class_settings():
        paths += named_classes(setting, attrgetter(setting)(sections))
    return paths


def class_settings() -> list[str]:
    """Return the full names of the settings that name classes."""
    return [name for name, known in catalogue().items() if known.metadata["check"] == "class_path"]


def named_classes(setting: str, value: str | tuple[str, ...] | None) -> list[str]:
    """Return the class paths that a value of `setting` stands for: zero, one or several."""
    if value is None:
        return []
    values = (value,) if isinstance(value, str) else value
    return [class_path_of(setting, name) for name in values]
