"""Settings of augmentation, as tests write them."""

from typing import Any

from asdf.settings.sections import Sections


def augmentation(*chain: str, **values: Any) -> Sections:
    """Return settings with this chain; `values` are those of the section `augmentation`."""
    settings = Sections()
    settings.augmentation.chain = chain
    for name, value in values.items():
        setattr(settings.augmentation, name, value)
    return settings
