"""Data sets of the hub in parquet: which shards a name means, and how they come to this machine.

Invariant: of several configurations or splits none is taken unless the name says which; only the
shards of what is named are downloaded, by commit, each compared with the hub's digest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from asdf.archives import locate_shard
from asdf.errors import AsdfError, UsageError
from asdf.hub.cache import CachedRepository
from asdf.hub.download import bring_files, look_up_files
from asdf.hub.hub_names import HubName, parse_name
from asdf.hub.library import explained, hub_library
from asdf.text import did_you_mean, quoted_and_more

SHARD = ".parquet"
CONVERTED = "refs/convert/parquet"
"""Revision under which the hub has its own conversion of public data sets to parquet."""

_SHOWN = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Dataset:
    """A data set as a name means it.

    Attributes:
        name: Repository and revision.
        configuration: Configuration that was named; '' for none.
    """

    name: HubName
    configuration: str = ""


@dataclass(frozen=True)
class Downloaded:
    """The shards of a split on this machine.

    Attributes:
        folder: Folder of the commit, which is its name.
        shards: Paths of the shards below it, sorted.
    """

    folder: Path
    shards: Sequence[str]


def parse_dataset(text: str) -> Dataset:
    """Return what 'ORG/NAME', 'ORG/NAME/CONFIGURATION' or either with '@REVISION' means.

    Raises:
        UsageError: it is no name of a data set.
    """
    repository, at, revision = text.partition("@")
    parts = repository.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"'hub:{text}' is not a data set of the hub: write hub:ORG/NAME:SPLIT, with a "
            "configuration hub:ORG/NAME/CONFIGURATION:SPLIT, and with a revision behind it "
            "hub:ORG/NAME@REVISION:SPLIT."
        )
    name = parse_name(f"hub:{parts[0]}/{parts[1]}{at}{revision}")
    assert name is not None  # 'hub:' makes it one, or an error
    return Dataset(replace(name, kind="dataset"), "/".join(parts[2:]))


def download_dataset(
    text: str,
    split: str = "",
) -> Downloaded:
    """Download the shards of one split of a data set, unless they are in the cache.

    Args:
        text: Name as `parse_dataset` reads it.
        split: Split; '' where it has only one.

    Raises:
        UsageError: huggingface_hub is not installed, or the name leaves the configuration or the
            split open; the message lists those that exist.
        AsdfError: there is no such data set, it has no parquet, or it cannot be downloaded.
    """
    dataset = parse_dataset(text)
    hub_library()
    cached = CachedRepository(dataset.name)
    with explained(dataset.name):
        commit, files = look_up_files(dataset.name, cached)
        shards = choose_shards(dataset, split, list(files))
        wanted = {name: files[name] for name in shards}
        bring_files(dataset.name, commit, wanted, cached)
    return Downloaded(cached.snapshot(commit), shards)


def download_into(
    name: HubName,
    folder: Path,
) -> list[Path]:
    """Download all files of a data set, and link them into a folder as they lie in it.

    The contents are in the cache of the hub's library, which other programs use as well.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: there is no such data set, it cannot be downloaded, or a file of another content
            lies in the folder already.
    """
    hub_library()
    cached = CachedRepository(name)
    with explained(name):
        commit, files = look_up_files(name, cached)
        bring_files(name, commit, files, cached)
    paths = []
    for file_name in files:
        content = (cached.snapshot(commit) / file_name).resolve()
        path = folder / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            raise AsdfError(f"{path} is there already, and no link: move it away first.")
        path.symlink_to(content)
        paths.append(path)
    return paths


def choose_shards(
    dataset: Dataset,
    split: str,
    names: Sequence[str],
) -> list[str]:
    """Return the shards of a split among the files of a repository, sorted.

    Raises:
        UsageError: several configurations or splits, and the name says not which.
        AsdfError: the repository has no parquet, or not what is named.
    """
    by_split: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        if name.lower().endswith(SHARD):
            place = locate_shard(name)
            # What the hub's tools call a data set without configurations.
            is_unnamed = place.folder in ("data", "default")
            configuration = "" if is_unnamed else place.folder
            by_split[configuration][place.split].append(name)
    where = str(dataset.name)
    if not by_split:
        hint = f"hub:{dataset.name.repository}@{CONVERTED}"
        if dataset.name.revision == CONVERTED:
            hint = "its files, by hf download --repo-type dataset, and a list of them"
        raise AsdfError(
            f"{where} holds no parquet, but {quoted_and_more(sorted(names), _SHOWN)}. Of public "
            f"data sets the hub has its own conversion (of large ones a part): try {hint}."
        )
    splits = _pick("configuration", dataset.configuration, by_split, where, "/")
    return sorted(_pick("split", split, splits, where, ":"))


def _pick(
    what: str,
    wanted: str,
    known: Mapping[str, T],
    where: str,
    sign: str,
) -> T:
    """Return the value of the name that is wanted, or of the only one where none is.

    Raises:
        UsageError: there are several, and none is wanted.
        AsdfError: there is none of this name.
    """
    names = sorted(known)
    if wanted and wanted not in known:
        raise AsdfError(
            f"{where} has no {what} {wanted!r}.{did_you_mean(wanted, names)} There is "
            f"{', '.join(name or '(no name)' for name in names)}."
        )
    if not wanted and len(names) > 1 and "" not in known:
        raise UsageError(
            f"{where} has {len(names)} of them, so name the {what}: "
            f"{', '.join(f'{where}{sign}{name}' for name in names)}."
        )
    if not wanted:
        wanted = names[0]
    return known[wanted]
