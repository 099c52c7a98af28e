"""The computation of a file's scores, from the file next to it, its run's records or settings.

Invariant: unreadable information is unknown, never an error, since the scores are valid without it.
The set that chose a network is found from the run's evaluations and its selection by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.evaluations import Evaluation, best_first
from asdf.runs.files import sha256_of, write_text
from asdf.runs.layout import AVERAGE, Layout, corpus_of_file, layout_of_score_file
from asdf.runs.streams import descriptor_of
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint
from asdf.trials.how_scored import (
    NOT_KNOWN,
    HowScored,
    ScoredLength,
    SetRole,
    entry_path,
    read_entry,
    stated_trials,
)
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import write_scores, write_unlabelled_scores

_MIN = "network.min_evaluation_utterance_length_in_samples"
_MAX = "network.max_evaluation_utterance_length_in_samples"
_OPTIONAL = ("engine", "network", "trials", "recordings")
"""Values that are written if they are known."""

SharedSets = dict[str, dict[str, Any]]
"""Number of 'trials' of each set, and of those shared with the sets in 'trained_on' and
'validated_on', by the names of these."""


def write_how_scored(score_file: Path, scored: HowScored) -> None:
    """Write `scored`, whose length is known, as NAME.scored.json next to a score file NAME.txt.

    The file is written before, since its SHA-256 is stated too.
    """
    assert scored.length is not None
    entry: dict[str, Any] = {**scored.length.record(), "precision": scored.precision}
    for name in _OPTIONAL:
        value = getattr(scored, name)
        if value is not None:
            entry[name] = value
    with suppress(FileNotFoundError):
        # With the suffix, since `score --csv` writes a table of the same name.
        entry["sha256"] = {score_file.suffix: sha256_of(score_file)}
    write_text(entry_path(score_file), json.dumps(entry) + "\n")


def write_recorded(
    path: Path,
    ids: Sequence[str],
    labels: Iterable[int] | None,
    scores: npt.ArrayLike,
    scored: HowScored,
) -> None:
    """Write a score file with its record next to it, for which standard output has no place.

    Args:
        labels: Labels of the trials; None: the file has none.

    Raises:
        AsdfError: as in `write_scores`.
    """
    is_file = descriptor_of(path) is None
    if is_file:
        # Removed first: a stop in between must not leave an old record beside new scores.
        remove_how_scored(path)
    if labels is None:
        write_unlabelled_scores(path, ids, np.asarray(scores))
    else:
        write_scores(path, ids, labels, scores)
    if is_file and scored.length is not None:
        write_how_scored(path, replace(scored, trials=len(ids)))


def read_how_scored(score_file: Path) -> HowScored | None:
    """Return the information that `write_how_scored` wrote; None if there is none usable."""
    entry = read_entry(score_file)
    try:
        longest = entry["max_samples"]
        length = ScoredLength(
            int(entry["min_samples"]),
            None if longest is None else int(longest),
            # Files for 16 kHz state no rate.
            int(entry.get("sample_rate", SAMPLE_RATE)),
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    # The second version wrote no precision, and later ones neither network nor trials.
    names = ("precision", "engine", "network")
    texts: dict[str, Any] = {
        name: entry[name] for name in names if isinstance(entry.get(name), str)
    }
    recordings = entry.get("recordings")
    if isinstance(recordings, dict) and recordings.keys() == {"list", "recordings"}:
        texts["recordings"] = recordings
    return HowScored(length, trials=stated_trials(entry), **texts)


def remove_how_scored(score_file: Path) -> None:
    """Remove the information next to a score file, which would be wrong for other scores.

    It is removed before writing new scores, so a killed process leaves no false information.
    """
    entry_path(score_file).unlink(missing_ok=True)


def how_scored(score_file: Path, picked_best: bool = False) -> HowScored:
    """Return how the scores of a file were computed, as far as it is known.

    Args:
        picked_best: Whether the network was chosen by validation, as in `role_of`.
    """
    written = read_how_scored(score_file)
    if written is None:
        written = NOT_KNOWN
        # The first version wrote nothing next to score files, but they lie in a run with settings.
        layout = layout_of_score_file(score_file.absolute())
        with suppress(AsdfError, KeyError, ValueError):
            settings = {} if layout is None else RunFolder(layout.system).settings()
            texts = {name: setting.text for name, setting in settings.items()}
            names = (_MIN, _MAX)
            # Its linear layer fits one number of frames, so it scores that length whatever is set.
            if texts.get("network.network_class", "").strip("'\"").endswith("SSL_SLS"):
                names = ("back_end.sls_samples", "back_end.sls_samples")
            shortest, longest = (int(texts[name]) for name in names)
            written = HowScored(ScoredLength(shortest, longest))
    return replace(written, role=role_of(score_file, picked_best))


def write_shared(layout: Layout, shared: Mapping[str, Mapping[str, Any]], afresh: bool) -> None:
    """Add the trials that sets share with training and validation sets to sets.json.

    Args:
        afresh: Whether records of earlier starts are dropped, since none of their networks exists.
    """
    known = {} if afresh else read_shared(layout)
    for name, record in shared.items():
        before = known.get(name, {})
        merged: dict[str, Any] = {"trials": record["trials"]}
        for use in ("trained_on", "validated_on"):
            merged[use] = {**before.get(use, {}), **record[use]}
        known[name] = merged
    write_text(layout.sets, json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def read_shared(layout: Layout) -> SharedSets:
    """Return the content of sets.json; empty if it was not written or is damaged."""
    try:
        known = json.loads(layout.sets.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    kinds = {"trials": int, "trained_on": dict, "validated_on": dict}
    records = {}
    for name, record in known.items():
        values = record if isinstance(record, dict) else {}
        if all(isinstance(values.get(key), kind) for key, kind in kinds.items()):
            records[name] = record
    return records


def role_of(score_file: Path, picked_best: bool = False) -> SetRole | None:
    """Return the role of a score file's set for its network; None if it is unknown.

    Args:
        picked_best: Whether the network is shown because it is the best by its validation, whatever
            the settings select.
    """
    layout = layout_of_score_file(score_file.absolute())
    if layout is None:
        return None
    try:
        return _role_in_run(RunFolder(layout.system), score_file, picked_best)
    except (AsdfError, Complaint, OSError, ValueError, TypeError):
        return None


def training_words(score_file: Path) -> str:
    """Return ', trained on' or '', as known while a network is still being chosen."""
    role = role_of(score_file)
    words = "" if role is None else role.describe_training()
    return f", {words}" if words else ""


def _role_in_run(run: RunFolder, score_file: Path, picked_best: bool) -> SetRole | None:
    settings = _Selection(run)
    chosen_on = settings.chosen_on(score_file.parent.name, picked_best)
    name = corpus_of_file(score_file)
    record = read_shared(run.layout).get(name)
    if record is not None:
        # Sets usually do not overlap, and their sum is at most all trials.
        trained_on = min(sum(record["trained_on"].values()), record["trials"])
        return SetRole(record["trials"], trained_on, record["validated_on"].get(chosen_on, 0))
    if not settings.texts:
        return None
    with score_file.open("rb") as file:
        # Without a record, the lines of the file are all that counts its trials.
        trials = sum(1 for _ in file)
    trained = trials if name in settings.training_sets() else 0
    return SetRole(trials, trained, trials if name == chosen_on else 0)


class _Selection:
    """The training sets of a run and its selection of networks, from its saved settings."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self.texts = {name: setting.text for name, setting in run.settings().items()}

    def training_sets(self) -> tuple[str, ...]:
        """Return the names of the training sets; empty if the run did not train on whole sets."""
        is_partial = self._value("recipe.leave_out") or self._value("recipe.leave_out_speakers")
        if is_partial or not self._run.layout.metrics.exists():
            return ()
        return tuple(self._value("recipe.training_sets") or ())

    def chosen_on(self, network: str, picked_best: bool) -> str:
        """Return the set that a network was chosen by; '' if none."""
        evaluations = self._run.evaluations()
        ranked = best_first(evaluations, self._value("network.validation_metric"))
        # With a single network, nothing was chosen.
        if len(ranked) < 2:
            return ""
        selected = self._value("recipe.selected_epochs") or ()
        is_best = str(ranked[0].network) == network and (picked_best or "best" in selected)
        if is_best or network == str(AVERAGE) or self._stopped_early(network, evaluations):
            best = ranked[0]
            return next(iter(best.values(best.metric)))
        return ""

    def _stopped_early(self, network: str, evaluations: list[Evaluation]) -> bool:
        """Whether validation ended training, and the network is the last one."""
        if self._value("network.early_stop_evaluations") is None:
            return False
        if str(max(evaluations, key=lambda known: known.step).network) != network:
            return False
        ends = [line for line in self._run.training() if line.get("kind") == "end"]
        return bool(ends) and "evaluations without a better" in str(ends[-1].get("reason"))

    def _value(self, name: str) -> Any:
        text = self.texts.get(name)
        return None if text is None else parse_literal(text)
