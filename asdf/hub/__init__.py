"""Networks by name: what others published on a hub such as huggingface.co, fetched once.

The names below are the door of this room; they are imported when they are first used, since the
hub's library takes a while to import, and is needed by those alone who name a network of the hub.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.hub.contents import Contents, look_up
    from asdf.hub.download import download_folder, download_network, name_of
    from asdf.hub.known import KnownDetector, PublishedEer, known_detectors
    from asdf.hub.names import HubName, parse_name
    from asdf.hub.upload import Pushed, push_folder

# Names by the files that define them.
_HOMES = {
    "contents": ("Contents", "look_up"),
    "download": ("download_folder", "download_network", "name_of"),
    "known": ("KnownDetector", "PublishedEer", "known_detectors"),
    "names": ("HubName", "parse_name"),
    "upload": ("Pushed", "push_folder"),
}

# Written out, not computed from _HOMES: type checkers read only a literal list.
__all__ = [
    "Contents",
    "HubName",
    "KnownDetector",
    "PublishedEer",
    "Pushed",
    "download_folder",
    "download_network",
    "known_detectors",
    "look_up",
    "name_of",
    "parse_name",
    "push_folder",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            # Python calls this function only for names that the module lacks: the next use costs
            # nothing.
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
