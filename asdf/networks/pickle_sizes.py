"""What a file of `torch.save` claims to hold, held against what it holds, before anything of it is allocated.

Invariant: only files pass whose storages are no larger than the bytes that are there for them. torch takes a claim
at its word: it would read past a record's end, or allocate whatever a number in the file says.

The pickle is walked, not run: its instructions are followed as far as numbers, texts and tuples go, which is all
that a storage's description is made of. Anything else stands for itself as `None`.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch

_ELEMENT_SIZES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
}
_LARGEST_ELEMENT = 16
# The legacy format begins with a magic number's pickle; a version, the machine's sizes and the content follow.
_BEFORE_STORAGES = 3
_MARK = object()


def check_sizes(path: Path) -> None:
    """Hold the claims of a file against its size.

    Raises:
        UnpicklingError: the file claims more than it holds, or in a way that cannot be followed.
        OSError, ValueError, zipfile.BadZipFile: it is damaged, or of another format.
    """
    if zipfile.is_zipfile(path):
        _check_zip(path)
    else:
        _check_legacy(path)


def _check_zip(path: Path) -> None:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        records = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
        if len(records) != len(archive.infolist()):
            raise UnpicklingError("it holds two records of one name")
        packed = [name for name, entry in records.items() if entry.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise UnpicklingError(f"its record {packed[0]} is compressed, which torch.save does not do")
        if sum(entry.file_size for entry in records.values()) > size:
            raise UnpicklingError(f"its records claim to be larger than the file, {size:,} bytes")
        if "data.pkl" not in records:
            return  # torch tells what it is instead
        with archive.open(records["data.pkl"]) as file:
            for key, claimed in _storages(file):
                record = records.get(f"data/{key}")
                if record is None or claimed > record.file_size:
                    held = "nothing" if record is None else f"{record.file_size:,} bytes"
                    raise UnpicklingError(f"its storage {key} claims {claimed:,} bytes and holds {held}")


def _check_legacy(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        if torch.serialization.MAGIC_NUMBER not in [argument for _, argument, _ in pickletools.genops(file)]:
            return  # torch tells what it is instead
        storages: dict[str, int] = {}
        for _ in range(_BEFORE_STORAGES):
            for key, claimed in _storages(file):
                storages[key] = max(claimed, storages.get(key, 0))
    if sum(storages.values()) > size:
        raise UnpicklingError(f"its storages claim {sum(storages.values()):,} bytes, and the file has {size:,}")


def _storages(file: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Key and claimed bytes of every storage that the pickle at the file's position names."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for instruction, argument, _ in pickletools.genops(file):
        try:
            if instruction.name == "BINPERSID":
                yield _storage(stack.pop())
                stack.append(None)
            else:
                _follow(instruction, argument, stack, memo)
        except (LookupError, ValueError, TypeError) as error:
            raise UnpicklingError(f"its pickle is broken at {instruction.name}") from error


def _follow(instruction: pickletools.OpcodeInfo, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    name, before = instruction.name, instruction.stack_before
    if name in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif name == "MARK":
        stack.append(_MARK)
    elif name in ("GLOBAL", "STACK_GLOBAL"):
        wanted = argument.split(" ")[-1] if name == "GLOBAL" else _pop(stack, 2)[-1]
        if wanted == "bytearray":
            raise UnpicklingError("it asks for a bytearray, whose size nothing bounds")
        stack.append(wanted)
    elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
        stack.append(tuple(_pop_to_mark(stack) if name == "TUPLE" else _pop(stack, int(name[-1]))))
    else:
        if pickletools.markobject in before:
            _pop_to_mark(stack)
            before = before[: before.index(pickletools.markobject)]
        _pop(stack, len(before))
        constant = not instruction.stack_before and len(instruction.stack_after) == 1
        stack.extend([argument] if constant else [None] * len(instruction.stack_after))


def _pop(stack: list[Any], count: int) -> list[Any]:
    if count > len(stack):
        raise IndexError(count)
    popped = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return popped


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    above = stack[::-1].index(_MARK)
    popped = _pop(stack, above)
    stack.pop()
    return popped


def _storage(description: Any) -> tuple[str, int]:
    match description:
        case (_, str(kind), key, _, int(count), *_) if count >= 0:
            return str(key), count * _ELEMENT_SIZES.get(kind, _LARGEST_ELEMENT)
    raise UnpicklingError("it describes a storage in a way that cannot be followed")
