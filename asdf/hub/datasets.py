"""Parquet data sets on the hub: selection and download of shards.

Invariant: if there are several configurations or splits, the name must select one; only the
selected shards are downloaded, by commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.hub.hub_names import HubName, parse_name
from asdf.hub.library import explained
from asdf.hub.repositories import look_up
from asdf.places.shard_names import locate_shard
from asdf.text import did_you_mean, quoted_and_more

SHARD = ".parquet"
CONVERTED = "refs/convert/parquet"
"""Revision with the hub's own conversion of public data sets to parquet."""

_SHOWN = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Dataset:
    """A data set given by a name.

    Attributes:
        name: Repository and revision.
        configuration: Configuration in the name; '' for none.
    """

    name: HubName
    configuration: str = ""


@dataclass(frozen=True)
class Downloaded:
    """The downloaded shards of a split.

    Attributes:
        folder: Folder of the commit, whose name is the commit.
        shards: Paths of the shards relative to it, sorted.
    """

    folder: Path
    shards: Sequence[str]


def parse_dataset(text: str) -> Dataset:
    """Parse 'ORG/NAME', 'ORG/NAME/CONFIGURATION' or either with '@REVISION'.

    Raises:
        UsageError: it is not the name of a data set.
    """
    repository, at, revision = text.partition("@")
    parts = repository.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"'hub:{text}' is not a data set of the hub: write hub:ORG/NAME:SPLIT, with a "
            "configuration hub:ORG/NAME/CONFIGURATION:SPLIT, and with a revision "
            "hub:ORG/NAME@REVISION:SPLIT."
        )
    name = parse_name(f"hub:{parts[0]}/{parts[1]}{at}{revision}")
    assert name is not None  # 'hub:' makes it one, or an error
    return Dataset(replace(name, kind="dataset"), "/".join(parts[2:]))


def download_dataset(text: str, split: str = "") -> Downloaded:
    """Download the shards of one split of a data set, unless they are in the cache.

    Args:
        text: Name, as in `parse_dataset`.
        split: Name of the split; '' if there is only one.

    Raises:
        UsageError: huggingface_hub is not installed, or the name does not select a configuration or
            split; the message lists them.
        AsdfError: the data set does not exist, has no parquet, or cannot be downloaded.
    """
    dataset = parse_dataset(text)
    contents = look_up(dataset.name)
    with explained(dataset.name):
        shards = choose_shards(dataset, split, list(contents.sizes))
        return Downloaded(contents.download(shards), shards)


def download_into(name: HubName, folder: Path) -> list[Path]:
    """Download all files of a data set into a folder; return their paths.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the data set does not exist or cannot be downloaded.
    """
    contents = look_up(name)
    with explained(name):
        contents.download(contents.sizes, local_dir=folder)
    return [folder / file for file in contents.sizes]


def choose_shards(dataset: Dataset, split: str, names: Sequence[str]) -> list[str]:
    """Return the shards of a split among the files of a repository, sorted.

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
    where = str(dataset.name)
    if not by_split:
        hint = f"hub:{dataset.name.repository}@{CONVERTED}"
        if dataset.name.revision == CONVERTED:
            hint = "its files, by hf download --repo-type dataset, and a list of them"
        raise AsdfError(
            f"{where} holds no parquet files, but {quoted_and_more(sorted(names), _SHOWN)}. The "
            f"hub converts public data sets itself (large ones in part): try {hint}."
        )
    splits = _pick("configuration", dataset.configuration, by_split, where, "/")
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
