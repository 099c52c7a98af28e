"""What recordings are called in shards.

Invariant: no two recordings have one name, and a name has no dot but the one before its suffix, at
which the library webdataset ends a sample's name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from asdf.archives import split_part
from asdf.facts import AUDIO_SUFFIXES

_ARCHIVES = (".tar/", ".parquet/")


def member_names(ids: Iterable[str]) -> list[str]:
    """Return a name without suffix for each recording, by its id.

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
        # The new name may be that of another recording, too.
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
        times = "" if part.stop is None else f"-{part.start}-{part.stop}"
        channel = "" if part.channel is None else f"-c{part.channel}"
        stem += times + channel
    # Underscores at the beginning mark members that webdataset passes over.
    stem = stem.replace(".", "_").lstrip("_") or "recording"
    folders = [word for word in folder.split("/") if word not in ("", ".", "..")]
    return "/".join([*folders, stem])
