"""The former location of lists, for recipes written for version 0.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asdf.trials.lists import (
    check_both_classes,
    check_files,
    read_asvspoof2019_protocol,
    read_list,
)
from asdf.trials.trial_list import TrialList, join

__all__ = [
    "UtteranceList",
    "check_both_classes",
    "check_files",
    "join",
    "read_asvspoof2019_protocol",
    "read_list",
]


def UtteranceList(
    name: str,
    folder: Path,
    ids: Sequence[str],
    labels: npt.ArrayLike,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> TrialList:
    """Return a `TrialList` from arguments in the order of version 0.1."""
    return TrialList(
        ids,
        np.asarray(labels, np.int8),
        columns=columns or {},
        name=name,
        folder=folder,
    )
