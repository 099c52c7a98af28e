"""How the scores in a file were computed: written next to it, or known from the settings of its run."""

from __future__ import annotations

import json
from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.layout import layout_of_score_file
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.run_folder import RunFolder
from asdf.trials.scored_length import ScoredLength

_MIN = "network.min_evaluation_utterance_length_in_samples"
_MAX = "network.max_evaluation_utterance_length_in_samples"
_LONGEST = 1000
"""Characters that are read of what stands next to a score file: a few values with their names."""


def write_how_scored(score_file: Path, scored: HowScored) -> None:
    """Write `scored`, whose length is known, next to a score file, as NAME.scored.json for NAME.txt."""
    assert scored.length is not None
    entry = {
        "min_samples": scored.length.min_samples,
        "max_samples": scored.length.max_samples,
        "precision": scored.precision,
    }
    write_text(_path(score_file), json.dumps(entry) + "\n")


def read_how_scored(score_file: Path) -> HowScored | None:
    """What `write_how_scored` wrote next to `score_file`; None where nothing usable is there.

    The second version wrote no precision.
    """
    try:
        with _path(score_file).open(encoding="utf-8") as file:
            entry = json.loads(file.read(_LONGEST))
        most = entry["max_samples"]
        length = ScoredLength(int(entry["min_samples"]), None if most is None else int(most))
        precision = entry.get("precision")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return HowScored(length, precision if isinstance(precision, str) else None)


def remove_how_scored(score_file: Path) -> None:
    """Remove what stands next to `score_file`, before other scores are written: it would be of the old ones."""
    _path(score_file).unlink(missing_ok=True)


def how_scored(score_file: Path) -> HowScored:
    """How the scores of a file were computed, as far as it is known.

    The first version wrote nothing next to its score files: those in the folder of a run have its
    settings.
    """
    if (written := read_how_scored(score_file)) is not None:
        return written
    layout = layout_of_score_file(score_file.absolute())
    if layout is None:
        return NOT_KNOWN
    try:
        settings = RunFolder(layout.system).settings()
        texts = {name: setting.text for name, setting in settings.items()}
        if texts.get("network.network_class", "").strip("'\"").endswith("SSL_SLS"):
            only = int(texts["back_end.sls_samples"])
            return HowScored(ScoredLength(only, only))
        return HowScored(ScoredLength(int(texts[_MIN]), int(texts[_MAX])))
    except (AsdfError, KeyError, ValueError):
        return NOT_KNOWN


def _path(score_file: Path) -> Path:
    return score_file.with_suffix(".scored.json")
