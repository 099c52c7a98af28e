"""What a repository of the hub holds, before anything of it is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from asdf.hub.cache import CachedRepository
from asdf.hub.download import look_up_files
from asdf.hub.library import explained, hub_library
from asdf.hub.names import HubName


@dataclass(frozen=True)
class Contents:
    """The files of a repository at one commit.

    Attributes:
        name: with the commit as its revision.
        sizes: Sizes of the files, in bytes.
        cached: names of the files that are in the cache.
    """

    name: HubName
    sizes: Mapping[str, int]
    cached: frozenset[str]

    def bytes_missing(self, wanted: tuple[str, ...]) -> int:
        """Return how many bytes of these files a download would fetch."""
        return sum(self.sizes[name] for name in wanted if name not in self.cached)


def look_up(name: HubName) -> Contents:
    """Return what a repository holds, as the hub says or, without a network, the cache.

    Nothing is downloaded. A commit that is known in the cache takes no request.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: there is no such repository or revision, or nobody answers.
    """
    hub_library()
    cached = CachedRepository(name)
    with explained(name):
        commit, files = look_up_files(name, cached)
    folder = cached.snapshot(commit)
    present = frozenset(file_name for file_name in files if (folder / file_name).is_file())
    sizes = {file_name: file.size for file_name, file in files.items()}
    return Contents(HubName(name.repository, commit, name.is_explicit), sizes, present)
