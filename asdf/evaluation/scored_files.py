"""How much of each recording the scores in a file are of: written next to it, or known from the settings of its run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from asdf.errors import AsdfError
from asdf.evaluation.run_folder import SCORES, RunFolder
from asdf.evaluation.scored_length import ScoredLength
from asdf.runs.files import write_text

_MIN = "network.min_evaluation_utterance_length_in_samples"
_MAX = "network.max_evaluation_utterance_length_in_samples"
_LONGEST = 1000
"""Characters that are read of what stands next to a score file: two numbers with their names."""


def write_scored_length(score_file: Path, scored: ScoredLength) -> None:
    """Write `scored` next to a score file, as NAME.scored.json for NAME.txt."""
    write_text(_path(score_file), json.dumps(asdict(scored)) + "\n")


def read_scored_length(score_file: Path) -> ScoredLength | None:
    """What `write_scored_length` wrote next to `score_file`; None where nothing usable is there."""
    try:
        with _path(score_file).open(encoding="utf-8") as file:
            entry = json.loads(file.read(_LONGEST))
        most = entry["max_samples"]
        return ScoredLength(int(entry["min_samples"]), None if most is None else int(most))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_scored_length(score_file: Path) -> None:
    """Remove what stands next to `score_file`, before other scores are written: it would be of the old ones."""
    _path(score_file).unlink(missing_ok=True)


def scored_length_of(score_file: Path) -> ScoredLength | None:
    """How much was scored for a score file; None where it is not known.

    The first version wrote nothing next to its score files: those in the folder of a run have its
    settings.
    """
    if (written := read_scored_length(score_file)) is not None:
        return written
    above = score_file.absolute().parents
    if len(above) < 3 or above[1].name != SCORES:
        return None
    try:
        settings = RunFolder(above[2]).settings()
        texts = {name: setting.text for name, setting in settings.items()}
        if texts.get("network.network_class", "").strip("'\"").endswith("SSL_SLS"):
            only = int(texts["back_end.sls_samples"])
            return ScoredLength(only, only)
        return ScoredLength(int(texts[_MIN]), int(texts[_MAX]))
    except (AsdfError, KeyError, ValueError):
        return None


def _path(score_file: Path) -> Path:
    return score_file.with_suffix(".scored.json")
