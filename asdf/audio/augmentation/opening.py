"""The chain of the settings: our parts by short names, the user's own by class paths.

To add a part of ours: a class derived from `Part` in a file of this folder, a line in
`asdf.settings.sections.AUGMENTATIONS`, and its settings in `Augmentation` there.
"""

from __future__ import annotations

from pathlib import Path

from asdf.audio.augmentation.chain import Chain
from asdf.audio.augmentation.part import Part
from asdf.audio.augmentation.user_parts import SETTING, build_user_part, is_user_part, try_part
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import find_class, searched_first
from asdf.settings.sections import Sections


def open_chain(settings: Sections, base: Path, folder: Path | None = None) -> Chain:
    """Return the chain of `settings`, with all its recordings listed.

    Args:
        base: Folder that those of noise and responses are relative to.
        folder: the recipe's, where modules of the user's own lie.

    Raises:
        UsageError: a folder is missing or holds nothing that fits, or a codec is not installed; a
            class does not exist, or is not a part.
        AsdfError: the user's own code fails, also where a second of noise shows it.
    """
    parts: list[Part] = []
    for class_path in named_classes(SETTING, settings.augmentation.chain):
        kind = find_class(class_path, folder, SETTING, Part)  # type: ignore[type-abstract]
        if is_user_part(kind):
            part = build_user_part(kind, settings, base)
            with searched_first(folder):
                try_part(part)
            parts.append(part)
        else:
            parts.append(kind(settings, base))
    return Chain(tuple(parts), folder.resolve() if folder else None)
