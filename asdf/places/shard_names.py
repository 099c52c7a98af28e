"""The configuration and split of a shard of a data set, read from its path on a hub."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBERED = re.compile(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?")


class ShardPlace(NamedTuple):
    """The part of a data set that a shard belongs to.

    Attributes:
        folder: Folder of its configuration; '' if there is none.
        split: Split that it belongs to.
    """

    folder: str
    split: str


def locate_shard(name: str) -> ShardPlace:
    """Return the configuration and split that a shard belongs to.

    Examples:
        >>> locate_shard("data/test-00000-of-00002.parquet")
        ShardPlace(folder='data', split='test')
        >>> locate_shard("en/test/0000.parquet")  # the hub's own conversions
        ShardPlace(folder='en', split='test')
    """
    folder, _, file_name = name.rpartition("/")
    stem = file_name.rpartition(".")[0]
    numbered = _NUMBERED.fullmatch(stem)
    if numbered:
        return ShardPlace(folder, numbered.group(1))
    if stem.isdigit() and folder:
        outer, _, split = folder.rpartition("/")
        return ShardPlace(outer, split)
    return ShardPlace(folder, stem)
