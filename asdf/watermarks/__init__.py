"""Watermark detection with installed packages, independent of the score.

The names below are the public interface of this room.
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
