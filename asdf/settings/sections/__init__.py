"""The settings themselves: one dataclass per section, one line of meaning per setting.

Invariant: only the files of this folder define a setting's name, type, default, unit and range. The
checks (`value_checks.py`), `--explain`, docs/settings.md and the saved snapshots are derived from
them. Lengths are samples at `audio.sample_rate` unless the name has a unit (`_s`, `_hz`, `_db`).
"""

# ruff: noqa: F401 (names for others, and Literal in the types of declared settings)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from asdf.settings.class_files import declared_settings
from asdf.settings.fields import FRAME_SAMPLES, MAX_LAYER_WIDTH
from asdf.settings.mistakes import KnownNames, UnknownName, nearest
from asdf.settings.sections.networks import (
    BACK_ENDS,
    FRONT_ENDS,
    BackEnd,
    FrontEnd,
    Localisation,
    Lora,
    Spectrum,
)
from asdf.settings.sections.recordings import (
    HIGHEST_RATE,
    LOWEST_RATE,
    USUAL_AUDIO,
    VOCODERS,
    Audio,
    Augmentation,
    Lengths,
    RawBoost,
    SpeechActivity,
    Vocoding,
)
from asdf.settings.sections.runs import SAMPLERS, Computing, Paths, Recipe
from asdf.settings.sections.training import (
    OPTIMIZERS,
    SCHEDULES,
    SOURCE_METRICS,
    Loss,
    Network,
    Source,
)

Declared = TypeVar("Declared")


_OTHERS = [kind for kind in declared_settings() if kind.section_name != "back_end"]
OF_EXTRAS = tuple(kind.section_name for kind in _OTHERS)
"""Sections that classes of networks declare for themselves."""

globals().update({kind.__name__: kind for kind in _OTHERS})


def _with_others(kind: type[Declared]) -> type[Declared]:
    others = [(own.section_name, own, field(default_factory=own)) for own in _OTHERS]
    made = make_dataclass(kind.__name__, others, bases=(kind,))
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    return made


@_with_others
@dataclass
class Sections(KnownNames):
    """All sections: the type of a plain copy of `Settings()`, which the rooms below use."""

    paths: Paths = field(default_factory=Paths)
    computing: Computing = field(default_factory=Computing)
    audio: Audio = field(default_factory=Audio)
    network: Network = field(default_factory=Network)
    loss: Loss = field(default_factory=Loss)
    source: Source = field(default_factory=Source)
    front_end: FrontEnd = field(default_factory=FrontEnd)
    spectrum: Spectrum = field(default_factory=Spectrum)
    back_end: BackEnd = field(default_factory=BackEnd)
    localisation: Localisation = field(default_factory=Localisation)
    lora: Lora = field(default_factory=Lora)
    rawboost: RawBoost = field(default_factory=RawBoost)
    augmentation: Augmentation = field(default_factory=Augmentation)
    lengths: Lengths = field(default_factory=Lengths)
    vocoding: Vocoding = field(default_factory=Vocoding)
    sad: SpeechActivity = field(default_factory=SpeechActivity)
    recipe: Recipe = field(default_factory=Recipe)
    declared: dict[str, Any] = field(default_factory=dict)
    """Sections declared by the user's classes, by name; `settings.my_section.x` reads them."""

    def section_of(self, kind: type[Declared]) -> Declared:
        """Return the section declared by a user's class, `settings.my_section`."""
        section: Declared = getattr(self, kind.section_name)  # type: ignore[attr-defined]
        return section

    def plain(self) -> dict[str, dict[str, Any]]:
        """Return plain values, by section and name."""
        values = asdict(self)
        # They stand beside the project's sections, as in a config.
        declared: dict[str, dict[str, Any]] = values.pop("declared")
        return values | declared

    # Hidden from type checkers, which report unknown names only without it.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # While an object is copied or unpickled, it has no attributes yet.
            declared = self.__dict__.get("declared", {})
            if name in declared:
                return declared[name]
            raise no_section(name, (*self.__dataclass_fields__, *declared))


def no_section(name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for reading a section that does not exist."""
    names = [section for section in known if section != "declared"]
    return UnknownName(f"there is no section '{name}'{nearest(name, names)}")


def assign(sections: object, values: Mapping[str, Any]) -> None:
    """Set settings by full name (section.name) in `Sections` or `Settings()`."""
    for full_name, value in values.items():
        section, _, name = full_name.partition(".")
        setattr(getattr(sections, section), name, value)
