"""The detector that is a part of the installation: it needs no download and no network.

The names below are the door of this room. The files of the detector lie in its folder `small`:
weights with calibration, the licence of the weights, and what was measured of it.
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
