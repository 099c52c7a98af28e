"""Watermarks in recordings, by the packages that are installed: apart from the score, beside it.

The names below are the door of this room.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.watermarks.mark_readers import READERS, MarkReader
    from asdf.watermarks.searching import (
        Samples,
        Watermark,
        WatermarkSearch,
        describe_watermarks,
        open_search,
        read_marks,
    )

__all__, __getattr__ = open_door(__name__)
