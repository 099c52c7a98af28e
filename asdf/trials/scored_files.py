"""How the scores in a file were computed: written next to it, or known from its run's settings.

Invariant: what cannot be read is not known, never an error: scores are sound without it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.layout import layout_of_score_file
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.known_roles import role_of
from asdf.trials.run_folder import RunFolder
from asdf.trials.scored_entry import entry_path, read_entry, stated_trials
from asdf.trials.scored_length import ScoredLength

_MIN = "network.min_evaluation_utterance_length_in_samples"
_MAX = "network.max_evaluation_utterance_length_in_samples"
_OPTIONAL = ("engine", "network", "trials")
"""Values that are written where they are known."""


def write_how_scored(score_file: Path, scored: HowScored) -> None:
    """Write `scored`, whose length is known, as NAME.scored.json next to a score file NAME.txt."""
    assert scored.length is not None
    entry = {
        "min_samples": scored.length.min_samples,
        "max_samples": scored.length.max_samples,
        "precision": scored.precision,
    }
    for name in _OPTIONAL:
        value = getattr(scored, name)
        if value is not None:
            entry[name] = value
    write_text(entry_path(score_file), json.dumps(entry) + "\n")


def read_how_scored(score_file: Path) -> HowScored | None:
    """Return what `write_how_scored` wrote next to a score file; None without anything usable."""
    entry = read_entry(score_file)
    try:
        min_samples = int(entry["min_samples"])
        max_samples = entry["max_samples"]
        if max_samples is not None:
            max_samples = int(max_samples)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    # The second version wrote no precision, and later ones neither network nor trials.
    texts: dict[str, Any] = {}
    for name in ("precision", "engine", "network"):
        value = entry.get(name)
        texts[name] = value if isinstance(value, str) else None
    return HowScored(ScoredLength(min_samples, max_samples), trials=stated_trials(entry), **texts)


def remove_how_scored(score_file: Path) -> None:
    """Remove what stands next to a score file, which would be wrong of other scores.

    It goes before they are written: a process that is killed in between leaves less, not a lie.
    """
    entry_path(score_file).unlink(missing_ok=True)


def how_scored(score_file: Path, picked_best: bool = False) -> HowScored:
    """Return how the scores of a file were computed, as far as it is known.

    Args:
        picked_best: as of `role_of`.
    """
    return replace(_computed(score_file), role=role_of(score_file, picked_best))


def _computed(score_file: Path) -> HowScored:
    written = read_how_scored(score_file)
    if written is not None:
        return written
    # The first version wrote nothing next to score files, but they lie in a run with settings.
    layout = layout_of_score_file(score_file.absolute())
    if layout is None:
        return NOT_KNOWN
    try:
        return HowScored(_length_by_settings(RunFolder(layout.system)))
    except (AsdfError, KeyError, ValueError):
        return NOT_KNOWN


def _length_by_settings(run: RunFolder) -> ScoredLength:
    texts = {name: setting.text for name, setting in run.settings().items()}
    network_class = texts.get("network.network_class", "").strip("'\"")
    # Its linear layer fits one number of frames, so it scores that length whatever is set below.
    if network_class.endswith("SSL_SLS"):
        samples = int(texts["back_end.sls_samples"])
        return ScoredLength(samples, samples)
    return ScoredLength(int(texts[_MIN]), int(texts[_MAX]))
