"""What a file of `torch.save` claims to hold, compared with the file before it is allocated.

Invariant: only files pass whose records are as they were written, whose storages are no larger than
their records, and whose calls copy no more values than the file has bytes. torch takes
a claim at its word: it would read past a record's end, or allocate whatever a number in the file
says; and it does not look at checksums.

The pickle is walked (`pickle_walk.py`), not run.
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from pickle import UnpicklingError

import torch

from asdf.interchange.pickle_walk import Storage, storages

# The legacy format begins with a magic number's pickle; a version, the machine's sizes and the
# content follow.
_BEFORE_STORAGES = 3


def check_sizes(path: Path) -> bool:
    """Compare the claims of a file with its size, and its records with their checksums.

    The checksums cost one pass over the file in its own order, some gigabytes per second; torch
    then finds the file in the system's cache. Files of the legacy format have none.

    Returns:
        Whether it is a zip, as all but the legacy format are.

    Raises:
        UnpicklingError: the file claims more than it holds, or in a way that cannot be followed.
        OSError, ValueError, zipfile.BadZipFile: it is damaged, or of another format.
    """
    zipped = zipfile.is_zipfile(path)
    if zipped:
        _check_zip(path)
    else:
        _check_legacy(path)
    return zipped


def _check_zip(path: Path) -> None:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        records = _records_of(archive, size)
        pickled = records.get("data.pkl")
        if pickled is None:
            return  # torch reports what it is instead
        with archive.open(pickled) as file:
            for storage in storages(file, size):
                _check_storage(storage, records)
        # After the pickle: a claim is refused without a pass over gigabytes.
        damaged = archive.testzip()
    if damaged:
        raise zipfile.BadZipFile(
            f"the bytes of its record {damaged} are not those that were written (CRC-32)"
        )


def _records_of(archive: zipfile.ZipFile, file_size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the records by name, if torch.save can have written them."""
    records: dict[str, zipfile.ZipInfo] = {}
    claimed = 0
    for entry in archive.infolist():
        # torch puts all records in a folder that it names after the file.
        name = entry.filename.partition("/")[2]
        if name in records:
            # torch might load the one that was not checked.
            raise UnpicklingError("it holds two records of one name")
        records[name] = entry
        claimed += entry.file_size
    if "constants.pkl" in records:
        raise UnpicklingError("it is a program of TorchScript, which would be run to be read")
    for name, entry in records.items():
        # A compressed record may be a thousand times as large in memory.
        if entry.compress_type != zipfile.ZIP_STORED:
            raise UnpicklingError(f"its record {name} is compressed, which torch.save does not do")
    # Records may also lie over each other: each alone fits, and all together do not.
    if claimed > file_size:
        raise UnpicklingError(f"its records claim to be larger than the file, {file_size:,} bytes")
    return records


def _check_storage(storage: Storage, records: dict[str, zipfile.ZipInfo]) -> None:
    record = records.get(f"data/{storage.key}")
    if record is not None and storage.size <= record.file_size:
        return
    held = "nothing" if record is None else f"{record.file_size:,} bytes"
    raise UnpicklingError(
        f"its storage {storage.key} claims {storage.size:,} bytes and holds {held}"
    )


def _check_legacy(path: Path) -> None:
    size = path.stat().st_size
    claims: dict[str, int] = {}
    with path.open("rb") as file:
        arguments = [argument for _, argument, _ in pickletools.genops(file)]
        if torch.serialization.MAGIC_NUMBER not in arguments:
            return  # torch reports what it is instead
        for _ in range(_BEFORE_STORAGES):
            for storage in storages(file, size):
                # Each tensor repeats the description of its storage; the largest claim is
                # allocated.
                claims[storage.key] = max(storage.size, claims.get(storage.key, 0))
    claimed = sum(claims.values())
    if claimed > size:
        raise UnpicklingError(f"its storages claim {claimed:,} bytes, and the file has {size:,}")
