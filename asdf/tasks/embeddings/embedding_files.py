"""Files of embeddings: a vector per recording, with the columns of the list.

Invariant: the same list, network and options give the same bytes; nothing in a file is executed.

An npz file holds `embeddings` (N, E) float32, `scores` (N,) float32, `ids`, `labels` (1 bona fide,
0 spoof, -1 unknown), `column_NAME` for each column of the list, and `how`, JSON that describes how
they were computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asdf.arrays import Singles
from asdf.runs.files import atomic_write
from asdf.trials.trial_list import TrialList

_COLUMN = "column_"


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
