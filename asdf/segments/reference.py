"""Spoofed parts of recordings from any supported file, PartialSpoof's labels per frame included.

Invariant: a reference is a list of trials with the column `spoofed_s`, so that recordings are found
by path or by bare name, as everywhere.

PartialSpoof's `dev_seglab_0.16.npy` is a dictionary of utterances and labels, 1 for bona fide and 0
for spoof, as text or number. No code in such a file is executed, as `numpy.load` would. Boundaries
are those of frames: the file with the finest resolution, 0.01, is the most exact one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from typing import Any

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.places import open_file
from asdf.segments.part_files import Timed, read_rttm, read_text
from asdf.segments.spoofed_seconds import COLUMN, format_spoofed, segments_from_scores
from asdf.text import AnyPath, printable, shorten
from asdf.trials.table import is_trials_file, parse_table
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import TrialList

# Of numpy's types: numbers and texts.
_KINDS = tuple("biuSU")
_MAGIC = b"\x93NUMPY"
_LABEL_OF = {"0": 0, "1": 1, b"0": 0, b"1": 1, 0: 0, 1: 1}
_HOP_IN_NAME = re.compile(r"_(\d+\.\d+)\.npy$")


def read_label_arrays(path: AnyPath, hop_s: float | None = None) -> dict[str, Timed]:
    """Read labels per frame by utterance; the path may lead into a tar.

    Args:
        hop_s: Length of a frame in seconds; None: that of the file's name, `..._0.16.npy`.

    Raises:
        UsageError: the length of a frame is neither given nor in the name.
        AsdfError: the file cannot be read, or has another format.
    """
    path = Path(path)
    if hop_s is None:
        match = _HOP_IN_NAME.search(path.name)
        if match is None or float(match[1]) <= 0:
            raise UsageError(
                f"{path}: the name does not state the length of a frame, as dev_seglab_0.16.npy "
                "does. Specify it."
            )
        hop_s = float(match[1])
    try:
        with open_file(path) as file:
            content = file.read()
    except OSError as error:
        raise AsdfError(
            f"cannot read the segment labels {path}: {error.strerror or error}. Check the path."
        ) from None
    try:
        labels_of = _labels_of(content)
    except Exception as error:  # a damaged pickle can fail anywhere in the unpickler
        reason = shorten(printable(str(error), one_line=True))
        raise AsdfError(
            f"{path}: {reason}. It should be PartialSpoof's segment labels, saved by numpy as a "
            "dictionary with an array of 0 and 1 for each utterance."
        ) from None
    result = {}
    for name, labels in labels_of.items():
        # A label is used as a score: 0 is below the threshold.
        spoofed = segments_from_scores(labels, hop_s, 0.5)
        result[name] = Timed(spoofed, round(len(labels) * hop_s, 6))
    return result


def _labels_of(content: bytes) -> dict[str, list[int]]:
    """Return the labels of each utterance."""
    if content[: len(_MAGIC)] != _MAGIC or len(content) < 12:
        raise UnpicklingError("it is not an npy file")
    # After numpy's header, which only announces a pickle; its length has two bytes in version 1 of
    # the format.
    begin = 10 if content[6] == 1 else 12
    header_size = int.from_bytes(content[8:begin], "little")
    saved = _LabelUnpickler(BytesIO(content[begin + header_size :])).load()
    # numpy saves a dictionary as an array of one object.
    if isinstance(saved, _Array) and len(saved.values) == 1:
        saved = saved.values[0]
    if not isinstance(saved, dict) or not all(isinstance(name, str) for name in saved):
        raise UnpicklingError("it is not a dictionary with texts as keys")
    result = {}
    for name, entry in saved.items():
        values = entry.values if isinstance(entry, _Array) else entry
        if not isinstance(values, list):
            raise UnpicklingError(f"the labels of {name[:80]!r} are not an array")
        if not all(isinstance(value, (str, bytes, int)) and value in _LABEL_OF for value in values):
            raise UnpicklingError(f"the labels of {name[:80]!r} are not 0 and 1")
        result[name] = [_LABEL_OF[value] for value in values]
    return result


class _Type:
    """Read instead of numpy's type, whose state in a file could name any memory."""

    def __init__(self, name: str, *_: object) -> None:
        # None: of objects. Else numbers and texts of a fixed width.
        self.dtype = None
        if name not in ("O", "O8"):
            if name[:1] not in _KINDS or not name[1:].isdecimal():
                raise UnpicklingError("it has an array of another type than numbers and texts")
            self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if self.dtype is not None and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Read instead of numpy's array: a row as long as its bytes, or a list of objects."""

    def __init__(self, *_: object) -> None:
        self.values: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, _, content = state
        is_plain = kind.dtype is None
        self.values = content if is_plain else np.frombuffer(content, kind.dtype).tolist()
        if shape not in ((len(self.values),), ()):
            raise UnpicklingError("it has an array of another shape than a row of labels")


# Protocol 2 writes bytes as text that is encoded when it is read.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
}


class _LabelUnpickler(Unpickler):
    """Builds plain values and arrays, and imports nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            asked = shorten(printable(f"{module}.{name}", one_line=True))
            raise UnpicklingError(f"it requests {asked}, which labels do not need")
        return _ALLOWED[module, name]


@dataclass(frozen=True, eq=False)
class Reference:
    """Trials with their spoofed parts.

    Attributes:
        durations_s: Length of each trial in seconds, if the file states it.
    """

    trials: TrialList
    durations_s: Mapping[str, float] = field(default_factory=dict)


def read_reference(path: AnyPath) -> Reference:
    """Read a table of trials, an RTTM, a text of parts (`read_text`), or PartialSpoof's npy.

    Raises:
        AsdfError: the file cannot be read or is malformed.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return _of_recordings(read_label_arrays(path), path)
    # Only line ends are removed: in a table, a TAB at the end of a line is an empty column.
    first, lines = peek(numbered_lines(path, "\r\n"))
    if is_trials_file(first):
        return Reference(parse_table(lines, path))
    # An RTTM may begin with comments, which ';;' marks.
    if first.split()[:1] == ["SPEAKER"] or first.startswith(";;"):
        return _of_recordings(read_rttm(path, lines), path)
    return _of_recordings(read_text(path, lines), path)


def _of_recordings(recordings: dict[str, Timed], path: Path) -> Reference:
    if not recordings:
        raise AsdfError(f"{path}: no recordings found. Was it copied completely?")
    labels = []
    values = []
    durations_s = {}
    for name, timed in recordings.items():
        labels.append(int(not timed.spoofed))
        values.append(format_spoofed(timed.spoofed))
        durations_s[name] = timed.end_s
    trials = TrialList(list(recordings), np.array(labels, np.int8), columns={COLUMN: values})
    return Reference(trials, durations_s)
