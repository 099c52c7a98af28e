"""The detector that is part of the installation, without a download or network access.

The names below are the public interface of this room. The detector's files are in the folder
`small`: weights with calibration, the licence of the weights, and its measurements.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.shipped.detector_facts import (
        ARCHITECTURE,
        FACTS,
        NETWORK,
        SMALL,
        ShippedDetector,
        is_shipped,
        shipped_detector,
    )

__all__, __getattr__ = open_door(__name__)
