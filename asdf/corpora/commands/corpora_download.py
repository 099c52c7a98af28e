"""`corpora NAME FOLDER --download`: public corpora from Zenodo and from the hub.

Invariant: corpora that are available only on request are not downloaded, and the licence is shown
before the download.
"""

from __future__ import annotations

from pathlib import Path

from asdf.corpora import (
    KNOWN,
    KnownCorpus,
    choose,
    download_record,
    hub_of,
    look_up_record,
    needs_request,
    records_of,
    unpack_archive,
)
from asdf.errors import UsageError
from asdf.hub import download_into, parse_dataset
from asdf.runs.streams import show_error

_GIGABYTE = 1_000_000_000


def download_corpus(name: str, folder: Path | None) -> None:
    """Download a corpus into its folder below `folder`.

    Raises:
        UsageError: it has no folder, or is not public.
        AsdfError: it cannot be downloaded or unpacked.
    """
    if folder is None:
        raise UsageError(
            f"the folder to download into is missing. Use: python -m asdf corpora {name} FOLDER "
            "--download"
        )
    corpus = KNOWN.get(name) or choose(name).corpus
    records = records_of(corpus)
    dataset = hub_of(corpus)
    if needs_request(corpus) or not (records or dataset):
        raise UsageError(_by_hand(corpus))
    # A corpus in the database folder itself ('') is not unpacked among other corpora.
    target = folder / (next(filter(None, corpus.folders), "") or corpus.name)
    for number in records:
        record = look_up_record(number)
        size = sum(file.size for file in record.files) / _GIGABYTE
        licence = record.licence or corpus.licence
        show_error(
            f"{corpus.title}: {record.address}, {len(record.files)} files, {size:,.2f} GB, "
            f"licence {licence}; into {target}"
        )
        for archive in download_record(record, target):
            show_error(f"{archive} is unpacked and can be removed")
    if dataset:
        licence = corpus.licence
        show_error(f"{corpus.title}: hub:{dataset}, licence {licence}; into {target}")
        for path in download_into(parse_dataset(dataset).name, target):
            # In the hub's cache, the file behind the link is named by its digest.
            unpack_archive(path, path.resolve().name)


def _by_hand(corpus: KnownCorpus) -> str:
    """Return how to get a corpus whose address is not for programs."""
    why = "its authors provide it on request"
    if not needs_request(corpus):
        why = "no public files are known at its address"
    return (
        f"{corpus.name} is not downloaded: {why}. Get it from {corpus.homepage} (licence: "
        f"{corpus.licence}), so that FOLDER has {corpus.needs}; then check it: python -m asdf "
        f"corpora {corpus.name} FOLDER"
    )
