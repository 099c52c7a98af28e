"""The settings language and the `Settings` singleton.

Nothing here imports torch or numpy, so that `--list` answers quickly.
"""

from asdf.settings.explaining import list_configs, markdown_tables
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.loading import Configs
from asdf.settings.mistakes import SettingsError
from asdf.settings.sections import (
    Augmentation,
    BackEnd,
    Computing,
    FrontEnd,
    Network,
    Paths,
    RawBoost,
    Recipe,
    Sections,
    SpeechActivity,
)
from asdf.settings.store import Settings

__all__ = [
    "Augmentation",
    "BackEnd",
    "Computing",
    "Configs",
    "FrontEnd",
    "Network",
    "OwnSettings",
    "Paths",
    "RawBoost",
    "Recipe",
    "Sections",
    "Settings",
    "SettingsError",
    "SpeechActivity",
    "list_configs",
    "markdown_tables",
    "setting",
]
