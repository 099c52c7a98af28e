"""What a file of `torch.save` claims to hold, held against what it holds, before it is allocated.

Invariant: only files pass whose records are as they were written, whose storages are no larger than
the bytes that are there for them, and whose calls copy no more than the file is large. torch takes
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

from asdf.interchange.pickle_walk import storages

# The legacy format begins with a magic number's pickle; a version, the machine's sizes and the
# content follow.
_BEFORE_STORAGES = 3


def check_sizes(path: Path) -> bool:
    """Hold the claims of a file against its size, and its records against their checksums.

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
        records = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
        if len(records) != len(archive.infolist()):
            raise UnpicklingError("it holds two records of one name")
        if "constants.pkl" in records:
            raise UnpicklingError("it is a program of TorchScript, which would be run to be read")
        packed = [
            name for name, entry in records.items() if entry.compress_type != zipfile.ZIP_STORED
        ]
        if packed:
            raise UnpicklingError(
                f"its record {packed[0]} is compressed, which torch.save does not do"
            )
        if sum(entry.file_size for entry in records.values()) > size:
            raise UnpicklingError(f"its records claim to be larger than the file, {size:,} bytes")
        if "data.pkl" not in records:
            return  # torch tells what it is instead
        with archive.open(records["data.pkl"]) as file:
            for key, claimed in storages(file, size):
                record = records.get(f"data/{key}")
                if record is None or claimed > record.file_size:
                    held = "nothing" if record is None else f"{record.file_size:,} bytes"
                    raise UnpicklingError(
                        f"its storage {key} claims {claimed:,} bytes and holds {held}"
                    )
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(
                f"the bytes of its record {damaged} are not those that were written (CRC-32)"
            )


def _check_legacy(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        if torch.serialization.MAGIC_NUMBER not in [
            argument for _, argument, _ in pickletools.genops(file)
        ]:
            return  # torch tells what it is instead
        claims: dict[str, int] = {}
        for _ in range(_BEFORE_STORAGES):
            for key, claimed in storages(file, size):
                claims[key] = max(claimed, claims.get(key, 0))
    if sum(claims.values()) > size:
        raise UnpicklingError(
            f"its storages claim {sum(claims.values()):,} bytes, and the file has {size:,}"
        )
