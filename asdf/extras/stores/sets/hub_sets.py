"""Data sets of the hub in parquet: the shards of one configuration and split, downloaded by name.

Invariant: if a data set has several configurations or splits, its name must select one, and only
the selected shards are downloaded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.hub import HubName, explained, look_up, parse_dataset
from asdf.text import did_you_mean, quoted_and_more

_NUMBERED = re.compile(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?")
_SHOWN = 8

SHARD = ".parquet"
CONVERTED = "refs/convert/parquet"
"""Revision with the hub's own conversion of public data sets to parquet."""

T = TypeVar("T")


def download_dataset(text: str, split: str = "") -> tuple[Path, list[str]]:
    """Download the shards of one split of a data set, unless they are in the cache.

    Returns:
        Folder of the commit, whose name is the commit, and paths of the shards relative to it.

    Args:
        text: Name, as in `parse_dataset`.
        split: Name of the split; '' if there is only one.

    Raises:
        UsageError: huggingface_hub is not installed, or the name does not select a configuration or
            split; the message lists them.
        AsdfError: the data set does not exist, has no parquet, or cannot be downloaded.
    """
    name, configuration = parse_dataset(text)
    contents = look_up(name)
    with explained(name):
        shards = choose_shards(name, configuration, split, list(contents.sizes))
        return contents.download(shards), shards


def choose_shards(dataset: HubName, wanted: str, split: str, names: Sequence[str]) -> list[str]:
    """Return the shards of a split among the files of a repository, sorted.

    Args:
        wanted: Name of the configuration; '' for none.

    Raises:
        UsageError: there are several configurations or splits, and the name does not select one.
        AsdfError: the repository has no parquet, or not the selected one.
    """
    by_split: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        if name.lower().endswith(SHARD):
            place = locate_shard(name)
            # Names that the hub's tools use for a data set without configurations.
            is_unnamed = place.folder in ("data", "default")
            configuration = "" if is_unnamed else place.folder
            by_split[configuration][place.split].append(name)
    where = str(dataset)
    if not by_split:
        hint = f"hub:{dataset.repository}@{CONVERTED}"
        if dataset.revision == CONVERTED:
            hint = "its files, by hf download --repo-type dataset, and a list of them"
        raise AsdfError(
            f"{where} holds no parquet files, but {quoted_and_more(sorted(names), _SHOWN)}. The "
            f"hub converts public data sets itself (large ones in part): try {hint}."
        )
    splits = _pick("configuration", wanted, by_split, where, "/")
    return sorted(_pick("split", split, splits, where, ":"))


def _pick(what: str, wanted: str, known: Mapping[str, T], where: str, sign: str) -> T:
    """Return the value of the wanted name, or the only value if no name is wanted.

    Raises:
        UsageError: there are several, and no name is wanted.
        AsdfError: there is none with this name.
    """
    names = sorted(known)
    if wanted and wanted not in known:
        raise AsdfError(
            f"{where} has no {what} {wanted!r}.{did_you_mean(wanted, names)} It has "
            f"{', '.join(name or '(no name)' for name in names)}."
        )
    if not wanted and len(names) > 1 and "" not in known:
        raise UsageError(
            f"{where} has {len(names)} of them, so name the {what}: "
            f"{', '.join(f'{where}{sign}{name}' for name in names)}."
        )
    if not wanted:
        # Without a name if there is one, since '' is sorted first.
        wanted = names[0]
    return known[wanted]


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
