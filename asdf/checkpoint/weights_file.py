"""Files of `torch.save`, from ASDF and other programs, read without executing anything.

Invariant: only `torch.load(weights_only=True)` opens a file, with a few further types for fairseq's
checkpoints. None of these types can execute code: a namespace of plain values, numpy numbers, and
an empty stand-in.

Its plain values are bounded before any other code sees them, so that they can be traversed, printed
and copied in reasonable time and memory. A list that holds another twice, nested for sixty levels,
takes a kilobyte in a file and prints as 2^60 items. Its tensors, at any nesting, may not claim more
memory than the file justifies.
"""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write, write_advice
from asdf.runs.log import LOG
from asdf.text import from_here, printable, shorten

# A checkpoint of XLS-R 2B with its optimiser has some 10,000 values, and layer names of 100,000
# characters in total. Each evaluation of the run adds a dozen values, each of which takes five
# bytes in the file.
SMALL_FILE_VALUES = 200_000
MAX_VALUES = 5_000_000
_BYTES_PER_VALUE = 4
MAX_CHARACTERS = 10_000_000
MAX_LEVELS = 100
MAX_JSON_BYTES = 20_000_000
MAX_BITS = 1024
"""Maximum size of an integer in bits: 308 decimal digits, as for the largest float."""

OUR_KEY = "model_state_dict"
"""Key of the weights in ASDF's files, including those of the original."""

STATE_KEYS = ("model", "network", "net", "state_dict", OUR_KEY, "model_state")
"""Keys of the weights in files of other programs, in the order of the search."""

READABLE = (
    "Front ends are read from fairseq checkpoints, folders of Hugging Face (wav2vec 2.0, HuBERT, "
    "WavLM), state dicts of torchaudio's wav2vec 2.0 and WavLM networks, and published detectors; "
    "`python -m asdf import --help` lists these detectors"
)
MAX_SHARED = 4
"""Maximum ratio of the layers' total size to the stored size, since layers may share values."""

# Of DataParallel, DDP and AveragedModel.
_PARALLEL = "module."
# Of torch.compile, FSDP and activation checkpointing, which wrap single parts too.
_WRAPPERS = re.compile(r"\b_(orig_mod|fsdp_wrapped_module|checkpoint_wrapped_module)\.")
AVERAGED = "n_averaged"
_NAMES_SHOWN = 8

# torch's message about an unknown type or function.
_GLOBAL = re.compile(r"GLOBAL (.*?) (?:was not an allowed|whose module)", re.DOTALL)
# Beginnings of torch's advice on executing the file.
_ADVICE = ("Weights only load failed", "Check the doc")
# Of numpy's numbers; neither 'O', which is any object, nor 'S' and 'V', which have any size.
_KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def check_plain(content: Any, file_size: int = 0) -> None:
    """Refuse values that are too many, too long, too large or too deeply nested.

    Shared values count each time they appear.

    Args:
        file_size: Size of their file in bytes; a large file may hold more values.

    Raises:
        ValueError: a limit is exceeded; the message says which.
    """
    allowed = min(max(SMALL_FILE_VALUES, file_size // _BYTES_PER_VALUE), MAX_VALUES)
    values = 1
    characters = 0
    # A list rather than recursion, since a malicious file could exhaust Python's stack.
    waiting = [(content, 0)]
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise ValueError(f"it holds a number of {value.bit_length():,} binary digits")
        characters += len(value) if isinstance(value, (str, bytes)) else 0
        if characters > MAX_CHARACTERS:
            raise ValueError(f"its values hold strings of more than {MAX_CHARACTERS:,} characters")
        parts: list[Any] = []
        if isinstance(value, Mapping):
            parts += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            parts += value
        if isinstance(value, (Mapping, Namespace, Tensor)):
            # An OrderedDict and a tensor may also have attributes, which are saved with them.
            parts += getattr(value, "__dict__", {}).values()
        for part in parts:
            values += 1
            if values > allowed or level == MAX_LEVELS:
                raise ValueError(
                    f"it holds more than {allowed:,} values, or more than {MAX_LEVELS} inside "
                    "each other; shared ones are counted as often as they appear"
                )
            waiting.append((part, level + 1))


def read_json(path: Path) -> dict[str, Any]:
    """Read the dictionary in a JSON file.

    Raises:
        AsdfError: it cannot be read, or holds something else.
    """
    try:
        # Checked before reading, since a malicious folder may hold a file of any size.
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ValueError(f"it is larger than {MAX_JSON_BYTES:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not a dictionary")
        check_plain(content)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise AsdfError(
            f"{path} is damaged or not JSON: {error}. Copy or download it again."
        ) from error
    return content


def nested_key(content: Mapping[str, Any]) -> str | None:
    """Return the key of the nested weights in a file; None if they are not nested.

    Without a usual key, it is that of the only dictionary of tensors.
    """
    # Programs also keep the options of a network under such a key.
    nested = []
    for key, value in content.items():
        tensors = value.values() if isinstance(value, Mapping) else ()
        if any(isinstance(each, Tensor) for each in tensors):
            nested.append(key)
    usual = [key for key in STATE_KEYS if key in nested]
    if usual or any(isinstance(value, Tensor) and value.ndim for value in content.values()):
        return usual[0] if usual else None
    return nested[0] if len(nested) == 1 else None


def state_dict_in(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """Return a file's named tensors, without the names of wrappers such as DataParallel.

    Raises:
        AsdfError: there are no tensors, or they are not plain.
    """
    key = nested_key(content)
    layers = content[key] if key else content
    check_names(layers, path)
    # Programs also save plain numbers among the layers, the original ASDF two of them.
    state = {name: value for name, value in layers.items() if isinstance(value, Tensor)}
    if not state:
        keys = ", ".join(map(str, list(content)[:_NAMES_SHOWN]))
        raise AsdfError(
            f"weights file {path} holds no tensors, only {keys or 'nothing'}. {READABLE}."
        )
    check_tensors(state, path)
    bare = {_WRAPPERS.sub("", name): tensor for name, tensor in state.items()}
    state = bare if len(bare) == len(state) else state
    # torch's AveragedModel counts its averages beside the network.
    state.pop(AVERAGED, None)
    without = without_prefix(state, _PARALLEL)
    return state if without is None else state_dict_in(without, path)


def without_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor] | None:
    """Return layers without a prefix that all names have; None if one lacks it.

    A network may have a part of such a name, besides others.
    """
    if not state or not all(name.startswith(prefix) for name in state):
        return None
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def check_names(state: Mapping[Any, Any], path: str | Path) -> None:
    """Refuse layers whose names are not texts.

    Raises:
        AsdfError: there are such layers; the message names the first one.
    """
    wrong = next((name for name in state if not isinstance(name, str)), "")
    if wrong != "":
        raise AsdfError(
            f"weights file {path} is damaged: the name of a layer is {shorten(repr(wrong))}, "
            "which is not a string."
        )


def check_tensors(state: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse tensors that would take more memory than their file when copied.

    Raises:
        AsdfError: a tensor is sparse, quantized or has no values, or tensors share the same values
            repeatedly.
    """
    claimed = 0
    stored: dict[int, int] = {}
    for name, tensor in state.items():
        # Such tensors may have any shape but hardly any values in the file.
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise AsdfError(
                f"weights file {path} holds a tensor that is not of plain numbers: {name}. "
                f"{READABLE}."
            )
        claimed += tensor.numel() * tensor.element_size()
        storage = tensor.untyped_storage()
        # By storage, so that values shared by several layers count once.
        stored[storage.data_ptr()] = storage.nbytes()
    held = sum(stored.values())
    if claimed > MAX_SHARED * held:
        raise AsdfError(
            f"weights file {path} is refused: its tensors claim {claimed:,} bytes, and it holds "
            f"{held:,}. It is damaged or malicious."
        )


class NumberType:
    """The type of a single number, read instead of `numpy.dtype`."""

    def __init__(self, name: str, *_: object) -> None:
        wanted = shorten(printable(repr(name), one_line=True))
        if name not in _KINDS:
            raise pickle.UnpicklingError(
                f"it asks for numpy's type {wanted}, which is not a single number"
            )
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Set the byte order; the rest of a state is for types of several numbers."""
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


def read_number(kind: NumberType, data: bytes) -> float | int | bool:
    """Return the number for these bytes, in place of numpy's constructor."""
    if not isinstance(kind, NumberType) or not isinstance(data, bytes):
        raise pickle.UnpicklingError(
            "it describes a number of numpy's in a way that cannot be followed"
        )
    numbers = np.frombuffer(data, kind.dtype, count=1)
    value: float | int | bool = numbers[0].item()
    return value


class StandIn:
    """An empty object in place of one of fairseq's that the weights do not need."""

    def __setstate__(self, state: object) -> None:
        """Ignore the state of the object in the file."""


# Types by their names in files. No numpy function is called with content of a file: numpy types may
# have any size and structure although the file that names one is small.
_ALLOWED: list[Any] = [
    Namespace,
    (StandIn, "fairseq.data.dictionary.Dictionary"),
    (NumberType, "numpy.dtype"),
    # numpy renamed the module of its scalars.
    (read_number, "numpy.core.multiarray.scalar"),
    (read_number, "numpy._core.multiarray.scalar"),
]


def read_weights_file(
    path: str | Path, kind: str = "weights from", mapped: bool = True
) -> dict[str, Any]:
    """Return the dictionary in a file of `torch.save`, on the CPU.

    Args:
        kind: Kind of the file for the message "cannot read KIND PATH".
        mapped: Whether values are read from the file when they are copied, sharing memory between
            the processes of a node. Copy them at once, since writing to the file crashes this
            process.

    Raises:
        AsdfError: the file is missing, damaged or of another kind, or requests anything but plain
            values and tensors.
    """
    path = Path(path)
    refusal = f"cannot read {kind} {path}"
    # Checked first, since torch's messages for these cases speak of archives and magic numbers.
    reason = "it is a folder" if path.is_dir() else "there is no such file"
    if not path.is_file():
        raise AsdfError(f"{refusal}: {reason}{from_here(path)}. Check the path.")
    other = other_kind(path)
    if other:
        raise AsdfError(f"{refusal}: it is {other}.")
    try:
        zipped = zipfile.is_zipfile(path)
        if zipped:
            # torch does not compare records with their checksums, which takes little time.
            with zipfile.ZipFile(path) as archive:
                if any(name.endswith("/constants.pkl") for name in archive.namelist()):
                    raise pickle.UnpicklingError(
                        "it is a TorchScript program, which would be executed when read"
                    )
                damaged = archive.testzip()
            if damaged:
                raise zipfile.BadZipFile(f"its record {damaged} is corrupt (CRC-32)")
        with torch.serialization.safe_globals(_ALLOWED):
            # The legacy format cannot be mapped, and torch raises an error if requested.
            content = torch.load(
                path, map_location="cpu", weights_only=True, mmap=mapped and zipped
            )
        check_plain(content, path.stat().st_size)
    except pickle.UnpicklingError as error:
        raise AsdfError(
            f"{refusal}. It is refused, and nothing in it was run: {_reason_of(error)}. Such a "
            "file holds tensors and plain values only; this one is damaged, made for another "
            "program, or malicious. If you trust it, ask its authors for its state dict alone, "
            "saved by torch.save(model.state_dict(), PATH)."
        ) from None
    except Exception as error:  # a damaged file can fail anywhere in the unpickler
        raise AsdfError(
            f"{refusal}: {_reason_of(error)}. It is damaged or not a network of ASDF, and nothing "
            "in it was run. Compare its size with the original's, and copy or download it again."
        ) from None
    if not zipped:
        LOG.warning(
            "%s is in the format that torch.save had before version 1.6, which has no checksums: "
            "a changed number in it would not be noticed. Compare its SHA-256 with its source's.",
            path,
        )
    # A saved module was refused above; this is a single tensor or a list.
    if not isinstance(content, dict):
        raise AsdfError(
            f"{refusal}: it holds a {type(content).__name__}, but weights must be in a dictionary."
        )
    return content


def write_weights_file(path: Path, content: Mapping[str, Any]) -> None:
    """Write a dictionary of tensors and plain values by `torch.save`, atomically.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; an existing file at `path` is
            unchanged.
    """
    try:
        with atomic_write(path, "wb") as file:
            torch.save(dict(content), file)
    except RuntimeError as error:
        # torch's zip writer hides the file system's error behind its own.
        if not isinstance(error.__context__, OSError):
            raise
        raise AsdfError(write_advice(path, error.__context__)) from error


def _reason_of(error: Exception) -> str:
    """Return torch's reason, escaped for a terminal, without its advice on executing the file."""
    before, marked, after = str(error).partition("WeightsUnpickler error:")
    # The reason follows this mark; before it, torch explains its own options.
    text = after if marked else before
    unknown = _GLOBAL.search(text)
    if unknown:
        name = shorten(printable(unknown[1], one_line=True))
        return f"it asks for {name}, which is neither a tensor nor a plain value"
    for line in text.split("\n"):
        reason = line.strip()
        if not reason or reason.startswith(_ADVICE):
            continue
        # From here on torch advises weights_only=False, which would execute the file.
        if "weights_only" in reason:
            break
        reason = reason.split("Please use")[0].strip().rstrip(".")
        return shorten(printable(reason, one_line=True))
    return f"torch cannot load it ({type(error).__name__})"


# Files that are often taken for a network, by their first bytes. The usual mistake is the order of
# arguments: `score call.wav network.pt`.
_RECORDINGS = {
    b"RIFF": "RIFF, as WAV files begin",
    b"RF64": "RF64, a large WAV file",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"FORM": "AIFF",
    b".snd": "AU",
    b"caff": "CAF",
}
_WEB_PAGES = (b"<!doctype", b"<html", b"<?xml")
_START_BYTES = 64
# A clone without git-lfs has such texts of some hundred bytes instead of the files.
_POINTER = b"version https://git-lfs"


def other_kind(path: Path) -> str | None:
    """Return what a file is, if it is not a network but often mistaken for one."""
    with path.open("rb") as file:
        start = file.read(_START_BYTES)
    for magic, kind in _RECORDINGS.items():
        if start.startswith(magic):
            return f"a recording ({kind}), not a network; commands name the network first"
    if is_web_page(start):
        return "a web page, not a network; a server or a proxy sent it instead of the file"
    if start.startswith(_POINTER):
        return "a pointer of Git LFS, not a network; run git lfs pull where it came from"
    return None


def is_web_page(start: bytes) -> bool:
    """Whether a file that begins with these bytes is HTML."""
    # A byte order mark and blank lines may precede the first tag.
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGES)
