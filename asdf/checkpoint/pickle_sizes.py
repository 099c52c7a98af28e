"""Checks of the sizes that a file of `torch.save` claims, before anything is allocated.

Invariant: a file passes only if its records are intact, its storages are no larger than their
records, and its calls copy no more values than the file has bytes. torch trusts these claims: it
would read past a record's end or allocate any size in the file, and does not verify checksums.

The pickle is followed (`asdf.runs.pickles`), not executed. Values that are only printed and
compared are bounded after reading the file (`plain_values.py`).
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch

from asdf.runs.pickles import Name, PickleFollower

# The legacy format begins with the pickle of a magic number, followed by a version, the machine's
# sizes and the content.
_BEFORE_STORAGES = 3
_ELEMENT_SIZES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
}
# complex128; an unlisted type counts as the largest, never as too small.
_LARGEST_ELEMENT = 16


def check_sizes(path: Path) -> bool:
    """Compare the claims of a file with its size, and its records with their checksums.

    The checksums cost one sequential pass over the file, some gigabytes per second; torch then
    finds the file in the system's cache. Files in the legacy format have none.

    Returns:
        Whether it is a zip, as all formats but the legacy one are.

    Raises:
        UnpicklingError: the file claims more than it holds, or in a way that cannot be checked.
        OSError, ValueError, zipfile.BadZipFile: the file is damaged, or of another format.
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
            for key, claimed in _claims(file, size).items():
                record = records.get(f"data/{key}")
                if record is None or claimed > record.file_size:
                    held = "nothing" if record is None else f"{record.file_size:,} bytes"
                    raise UnpicklingError(
                        f"its storage {key} claims {claimed:,} bytes and holds {held}"
                    )
        # After the pickle, so that a false claim is refused without a pass over gigabytes.
        damaged = archive.testzip()
    if damaged:
        raise zipfile.BadZipFile(f"its record {damaged} is corrupt (CRC-32)")


def _records_of(archive: zipfile.ZipFile, file_size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the records by name, if they are as torch.save writes them."""
    records: dict[str, zipfile.ZipInfo] = {}
    claimed = 0
    for entry in archive.infolist():
        # torch puts all records in a folder named by the file.
        name = entry.filename.partition("/")[2]
        if name in records:
            # torch might load the one that was not checked.
            raise UnpicklingError("it holds two records of one name")
        records[name] = entry
        claimed += entry.file_size
    if "constants.pkl" in records:
        raise UnpicklingError("it is a TorchScript program, which would be executed when read")
    for name, entry in records.items():
        # A compressed record may be a thousand times larger in memory.
        if entry.compress_type != zipfile.ZIP_STORED:
            raise UnpicklingError(f"its record {name} is compressed, which torch.save does not do")
    # Records may overlap, so that each alone fits but all together do not.
    if claimed > file_size:
        raise UnpicklingError(f"its records claim to be larger than the file, {file_size:,} bytes")
    return records


def _check_legacy(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        arguments = [argument for _, argument, _ in pickletools.genops(file)]
        if torch.serialization.MAGIC_NUMBER not in arguments:
            return  # torch reports what it is instead
        claimed = 0
        for _ in range(_BEFORE_STORAGES):
            claimed += sum(_claims(file, size).values())
    if claimed > size:
        raise UnpicklingError(f"its storages claim {claimed:,} bytes, and the file has {size:,}")


def _claims(file: IO[bytes], file_size: int) -> dict[str, int]:
    """Return the bytes that the pickle at the file's position claims for each storage."""
    follower = _StorageFollower(file_size)
    follower.follow(file)
    return follower.claims


class _StorageFollower(PickleFollower):
    """Collects the storages of a pickle; for all other objects, counts values."""

    def __init__(self, file_size: int) -> None:
        super().__init__(file_size)
        self.claims: dict[str, int] = {}

    def check_name(self, name: Name) -> None:
        """Refuse the one name allowed by torch that can create objects of any size."""
        if name.endswith("bytearray"):
            raise UnpicklingError("it asks for a bytearray, whose size nothing bounds")

    def other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Change the stack as pickletools describes the instruction."""
        # torch.save uses persistent ids only for storages.
        if instruction.name == "BINPERSID":
            match self.stack[-1]:
                case (_, Name() as kind, key, _, int(count), *_) if count >= 0:
                    size = count * _ELEMENT_SIZES.get(kind.split(" ")[-1], _LARGEST_ELEMENT)
                    # Each tensor repeats the description of its storage; the largest claim counts.
                    self.claims[str(key)] = max(size, self.claims.get(str(key), 0))
                case _:
                    raise UnpicklingError("it describes a storage in a way that cannot be followed")
        before = instruction.stack_before
        if pickletools.markobject in before:
            self.pop()
            before = before[: before.index(pickletools.markobject)]
        self.pop(len(before))
        is_constant = not instruction.stack_before and len(instruction.stack_after) == 1
        self.stack.extend([argument if is_constant else None] * len(instruction.stack_after))
