"""Files of embeddings: a vector per recording, with the columns of the list.

Invariant: the same list, network and options give the same bytes; nothing in a file is executed.

An npz file holds `embeddings` (N, E) float32, `scores` (N,) float32, `ids`, `labels` (1 bona fide,
0 spoof, -1 unknown), `column_NAME` for each column of the list, and `how`, JSON that describes how
they were computed.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import AnyIntegers, Singles
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.trials.trial_list import TrialList

_COLUMN = "column_"
_CLASSES = {1: "bona fide", 0: "spoof", -1: ""}


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The embeddings of a list.

    Attributes:
        embeddings_NE: Embeddings of the trials, (N, E) float32.
        scores_N: Scores of the network itself, (N,) float32.
        how: Description of how they were computed, as plain values.
    """

    trials: TrialList
    embeddings_NE: Singles
    scores_N: Singles
    how: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.trials)

    def values_of(self, column: str) -> list[str]:
        """Return the value of each trial in a column; 'label' is bona fide or spoof.

        Raises:
            AsdfError: there is no such column; the message names those that exist.
        """
        if column == "label":
            return [_CLASSES.get(label, "") for label in self.trials.labels.tolist()]
        if column not in self.trials.columns:
            known = ", ".join(["label", *self.trials.columns])
            raise AsdfError(f"these embeddings have no column {column!r}. They have {known}.")
        return list(self.trials.columns[column])

    def select(self, indices: AnyIntegers) -> Embeddings:
        """Return the embeddings at `indices`, in that order."""
        return Embeddings(
            self.trials.select(indices),
            self.embeddings_NE[indices],
            self.scores_N[indices],
            self.how,
        )


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a file of embeddings atomically.

    Raises:
        AsdfError: it cannot be written.
    """
    trials = embeddings.trials
    arrays: dict[str, np.ndarray] = {
        "embeddings": embeddings.embeddings_NE,
        "scores": embeddings.scores_N,
        "ids": np.array(list(trials.ids), np.str_),
        "labels": trials.labels,
        # Keys are sorted, so that equal content gives equal bytes.
        "how": np.array(json.dumps(dict(embeddings.how), sort_keys=True)),
    }
    for name, values in trials.columns.items():
        arrays[_COLUMN + name] = np.array(list(values), np.str_)
    # numpy does not store a time in the entries of a zip file, so equal content gives equal bytes.
    # The type annotations of its keywords differ between versions of numpy.
    save: Any = np.savez
    with atomic_write(path, "wb") as file:
        save(file, **arrays)


def read_embeddings(path: Path) -> Embeddings:
    """Read a file of embeddings.

    Raises:
        AsdfError: it cannot be read, or is not a file of embeddings.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        columns = {}
        for name, values in arrays.items():
            if name.startswith(_COLUMN):
                columns[name.removeprefix(_COLUMN)] = values.tolist()
        trials = TrialList(arrays["ids"].tolist(), arrays["labels"], columns=columns)
        embeddings_NE = arrays["embeddings"]
        scores_N = arrays["scores"]
        how = json.loads(str(arrays["how"]))
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from None
    # A pickle, another zip, a single array, an empty and a cut file raise one of these each.
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        raise AsdfError(
            f"{path} is not a file of embeddings, which `python -m asdf embed` writes."
        ) from None
    is_table = embeddings_NE.ndim == 2 and scores_N.shape == (len(trials),)
    if not is_table or len(embeddings_NE) != len(trials) or embeddings_NE.dtype.kind != "f":
        raise AsdfError(f"{path}: its arrays do not match each other. Write it again.")
    if not np.isfinite(embeddings_NE).all():
        raise AsdfError(f"{path}: embeddings are NaN or infinite. Has the network diverged?")
    return Embeddings(trials, embeddings_NE, scores_N, how if isinstance(how, dict) else {})
