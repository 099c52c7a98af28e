"""The settings language and the `Settings` singleton.

Nothing here imports torch or numpy, so that `--list` answers quickly.
"""

from asdf.settings.explaining import list_configs, markdown_tables
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.loading import Configs
from asdf.settings.mistakes import SettingsError
from asdf.settings.sections import Sections
from asdf.settings.store import Settings

__all__ = [
    "Configs",
    "OwnSettings",
    "Sections",
    "Settings",
    "SettingsError",
    "list_configs",
    "markdown_tables",
    "setting",
]
