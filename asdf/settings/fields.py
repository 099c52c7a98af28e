"""Fields of a section's dataclass: a type, a default, checks, and a line of meaning below it.

Invariant: the checks of a value are declared with its setting, by type or in the metadata. A bound
stands where a value outside would break something in silence or far from its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any, ClassVar, TypeVar

from asdf.settings.mistakes import KnownNames

Own = TypeVar("Own", bound="OwnSettings")

# 25 ms, the window of one frame of wav2vec 2.0, whose convolutions need at least as many samples.
FRAME_SAMPLES = 400
# Limits of what a stranger's file may state: the width of a layer, and a length in samples.
MAX_LAYER_WIDTH = 10**5
MAX_CLIP_SAMPLES = 3600 * 16000
# And the sizes of tables that are computed when a network is built, before its layers are compared.
MAX_FFT = 16384
MAX_FILTERS = 1024
# With many more, a computation does not end.
MAX_THREADS = 1024


def setting(
    default: Any,
    meaning: str = "",
    *,
    unit: str = "",
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    check: str = "",
    names: Mapping[str, str] | None = None,
) -> Any:
    """Return a dataclass field with its documentation and its checks.

    Args:
        meaning: Line of documentation; '' if it stands below the field, as a string of its own.
        at_least, above, at_most: Bounds of a number, or of every number of a tuple.
        check: Further check of `value_checks.py`: 'class_path' (one or several), 'unique' (no value
            twice), 'path' (one or several; environment variables are expanded), 'not_empty'.
        names: Short names of the project's classes, with their class paths.

    Examples:
        >>> from dataclasses import dataclass, fields
        >>> from asdf.settings import OwnSettings, setting
        >>> @dataclass
        ... class BankSettings(OwnSettings, section_name="bank"):
        ...     filters: int = setting(60, "filters, values per frame", at_least=6, at_most=200)
        >>> BankSettings().filters
        60
        >>> [field.metadata["meaning"] for field in fields(BankSettings)]
        ['filters, values per frame']
    """
    given: dict[str, Any] = {"meaning": meaning, "unit": unit, "at_least": at_least, "above": above}
    given |= {"at_most": at_most, "check": check, "names": names or {}, "formerly": ""}
    return field(default=default, metadata=given)


PLAIN: Mapping[str, Any] = setting(None).metadata
"""Metadata of a field that is a default alone."""


def proportion(default: float, meaning: str = "") -> Any:
    """Return the field of a probability, or of another proportion."""
    return setting(default, meaning, at_least=0, at_most=1)


def renamed(formerly: str, declared: Any) -> Any:
    """Return the field of a setting that had another full name, which files may still have.

    max_epochs: int = renamed("network.epochs", setting(1000, at_least=1))
    """
    made = declared if isinstance(declared, Field) else setting(declared)
    return field(default=made.default, metadata={**made.metadata, "formerly": formerly})


class OwnSettings(KnownNames):
    """Base class of the settings that a user's classes declare; derived classes are dataclasses.

    A field is a default or a `setting(default, meaning, ...)`; without a meaning there, the string
    below it is.

    Attributes:
        section_name: Name of the section, as configs write it.

    Examples:
        >>> from dataclasses import dataclass
        >>> from asdf.settings import OwnSettings, setting
        >>> @dataclass
        ... class CentreSettings(OwnSettings, section_name="centre"):
        ...     margin: float = setting(2.0, "distance that spoofs are pushed to", above=0)
        >>> CentreSettings().margin, CentreSettings.section_name
        (2.0, 'centre')
    """

    section_name: ClassVar[str] = ""

    def __init_subclass__(cls, section_name: str = "", **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if section_name:
            cls.section_name = section_name

    @classmethod
    def of(cls: type[Own], sections: object) -> Own:
        """Return the section from all of them."""
        own: Own = getattr(sections, cls.section_name)
        return own
