"""Networks on a hub such as huggingface.co, downloaded once and used by name.

The names below are the public interface of this room; they are imported on first use, because the
hub's library takes a while to import, and only users of the hub need it.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.hub.names import (
        HARDEST,
        MEASURED_ON,
        PREFIX,
        SUFFIXES,
        DetectorTable,
        HubName,
        KnownDetector,
        detector_tables,
        find_published,
        hub_name,
        known_detectors,
        parse_name,
        recommended,
        shipped_known,
    )
    from asdf.hub.repositories import (
        download_folder,
        download_into,
        download_network,
        explained,
        look_up,
        name_of,
        network_files,
        parse_dataset,
        push_folder,
    )

__all__, __getattr__ = open_door(__name__)
