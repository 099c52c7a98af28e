"""The chain of the settings: our parts by short names, the user's own by class paths.

To add a part of ours: a class derived from `Part` in a file of this folder, a line in
`asdf.settings.sections.AUGMENTATIONS`, and its settings in `Augmentation` there.
"""

from __future__ import annotations

from pathlib import Path

from asdf.audio.augmentation.chain import Chain
from asdf.audio.augmentation.part import Part
from asdf.audio.augmentation.user_parts import SETTING, build_user_part, is_user_part
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import find_class
from asdf.settings.sections import AUGMENTATIONS, Sections


def open_chain(settings: Sections, base: Path, folder: Path | None = None) -> Chain:
    """Return the chain of `settings`, with all its recordings listed.

    Args:
        base: what the folders of noise and responses are relative to.
        folder: the recipe's, where modules of the user's own lie.

    Raises:
        UsageError: a folder is missing or holds nothing that fits, or a codec is not installed; a
            class does not exist, or is none of a part.
        AsdfError: the user's own code fails.
    """
    return _build_chain(settings, base, folder, settings.augmentation.chain)


def check_material(settings: Sections, base: Path) -> None:
    """Look for what our own parts of the chain need, without the user's code.

    Raises:
        UsageError: a folder is missing or holds nothing that fits, or a codec is not installed.
    """
    ours = tuple(name for name in settings.augmentation.chain if name in AUGMENTATIONS)
    _build_chain(settings, base, None, ours)


def _build_chain(
    settings: Sections, base: Path, folder: Path | None, names: tuple[str, ...]
) -> Chain:
    parts: list[Part] = []
    for class_path in named_classes(SETTING, names):
        kind = find_class(class_path, folder, SETTING, Part)  # type: ignore[type-abstract]
        if is_user_part(kind):
            parts.append(build_user_part(kind, settings, base))
        else:
            parts.append(kind(settings, base))
    return Chain(tuple(parts), folder.resolve() if folder else None)
