"""Names of recordings in shards.

Invariant: names are distinct and contain no dot except before the suffix, because the library
webdataset ends a sample's name at the first dot.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from asdf.archives import split_part
from asdf.facts import AUDIO_SUFFIXES

_ARCHIVES = (".tar/", ".parquet/")


def member_names(ids: Iterable[str]) -> list[str]:
    """Return a name without suffix for each recording, from its id.

    Examples:
        >>> member_names(["flac/LA_1.flac", "../b/x.1.wav#t=1.5,2", "flac/LA_1.wav"])
        ['flac/LA_1', 'b/x_1-1_5-2', 'flac/LA_1-2']
    """
    names = []
    known: dict[str, int] = {}
    for utterance in ids:
        name = _name_of(utterance)
        count = known.get(name, 0)
        known[name] = count + 1
        # The new name may belong to another recording too.
        while count and (numbered := f"{name}-{count + 1}") in known:
            count += 1
        if count:
            name = numbered
            known[name] = 1
        names.append(name)
    return names


def _name_of(utterance: str) -> str:
    path, part = split_part(utterance)
    for suffix in _ARCHIVES:
        path = path.replace(suffix, "/")
    folder, name = posixpath.split(posixpath.normpath(path).lstrip("/"))
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() not in AUDIO_SUFFIXES:
        stem = name
    if part is not None:
        if part.stop is not None:
            stem += f"-{part.start}-{part.stop}"
        if part.channel is not None:
            stem += f"-c{part.channel}"
    # webdataset skips members with leading underscores.
    stem = stem.replace(".", "_").lstrip("_") or "recording"
    folders = [word for word in folder.split("/") if word not in ("", ".", "..")]
    return "/".join([*folders, stem])
