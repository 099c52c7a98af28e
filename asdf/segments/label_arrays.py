"""PartialSpoof's labels per frame: `dev_seglab_0.16.npy`, a dictionary of utterances and labels.

Invariant: no code in such a file is executed (`plain_pickle.py`), and time and memory are
proportional to its size. A label is 1 for bona fide and 0 for spoof, as text or number. Boundaries
are those of frames: the file with the finest resolution, 0.01, is the most exact one.
"""

from __future__ import annotations

import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from asdf.archives import open_file
from asdf.arrays import Labels
from asdf.errors import AsdfError, UsageError
from asdf.runs.pickles import Items
from asdf.segments.labels_per_frame import segments_from_scores
from asdf.segments.part_files import Timed
from asdf.segments.plain_pickle import Described, read_plain_pickle
from asdf.text import AnyPath

MOST_BYTES = 2**30
"""Maximum size of a file: ten times the largest distributed one, eval at 10 ms."""

_MAGIC = b"\x93NUMPY"
_ANY_LABEL = ("0", "1", 0, 1)
# By the kind of numpy's type: text, bytes; else numbers.
_ZERO_AND_ONE: dict[str, tuple[Any, Any]] = {"U": ("0", "1"), "S": (b"0", b"1")}
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
    content = _read_bytes(path)
    try:
        labels_of = _labels_of(content)
    except UnpicklingError as error:
        raise AsdfError(
            f"{path}: {error}. It should be PartialSpoof's segment labels, saved by numpy as a "
            "dictionary with an array of 0 and 1 for each utterance."
        ) from None
    result = {}
    for name, labels in labels_of.items():
        # A label is used as a score: 0 is below the threshold.
        spoofed = segments_from_scores(labels, hop_s, 0.5)
        result[name] = Timed(spoofed, round(len(labels) * hop_s, 6))
    return result


def _read_bytes(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            # One byte more shows that a file is too large.
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise AsdfError(
            f"cannot read the segment labels {path}: {error.strerror or error}. Check the path."
        ) from None
    if len(content) > MOST_BYTES:
        raise AsdfError(
            f"{path}: it has more than {MOST_BYTES:,} bytes, too many for a file of segment labels."
        )
    return content


def _labels_of(content: bytes) -> dict[str, Labels]:
    """Return the labels of each utterance, (frames,)."""
    if content[: len(_MAGIC)] != _MAGIC or len(content) < 12:
        raise UnpicklingError("it is not an npy file")
    # After numpy's header, which only announces a pickle; its length has two bytes in version 1 of
    # the format.
    begin = 10 if content[6] == 1 else 12
    header_size = int.from_bytes(content[8:begin], "little")
    saved = read_plain_pickle(content[begin + header_size :])
    # numpy saves a dictionary as an array of one object.
    if isinstance(saved, Described) and len(saved.objects) == 1:
        saved = saved.objects[0]
    if not isinstance(saved, Items) or saved.kind != "dict":
        raise UnpicklingError("it is not a dictionary")
    result = {}
    remaining = len(content)
    for name, described in zip(saved.values[0::2], saved.values[1::2], strict=True):
        if not isinstance(name, str):
            raise UnpicklingError("a dictionary in it has keys that are not texts")
        labels = described.value if isinstance(described, Described) else None
        if isinstance(described, Items) and described.kind == "list":
            labels = described.values
        if not isinstance(labels, (np.ndarray, list)):
            raise UnpicklingError(f"the labels of {name[:80]!r} are not an array")
        # An array that is referenced repeatedly would be converted each time.
        remaining -= len(labels)
        if remaining < 0:
            raise UnpicklingError("it repeats the same labels")
        result[name] = _as_labels(name, labels)
    return result


def _as_labels(name: str, values: Any) -> Labels:
    labels = np.full(len(values), -1, np.int8)
    if isinstance(values, np.ndarray):
        zero, one = _ZERO_AND_ONE.get(values.dtype.kind, (0, 1))
        labels[values == zero] = 0
        labels[values == one] = 1
    else:
        # Not converted as an array, because the longest text would determine the width of all.
        for index, value in enumerate(values):
            if isinstance(value, (str, int)) and value in _ANY_LABEL:
                labels[index] = int(value)
    if (labels < 0).any():
        raise UnpicklingError(f"the labels of {name[:80]!r} are not 0 and 1")
    return labels
