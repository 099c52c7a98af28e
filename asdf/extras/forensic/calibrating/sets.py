"""The set that a calibration is learnt from: its network, its scores, and which of its trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.hub import parse_name
from asdf.metrics.calibration import CalibrationSet
from asdf.metrics.summary import speakers_of
from asdf.runs.evaluations import evaluations_in
from asdf.runs.layout import Layout, NetworkName, corpus_of_file, layout_of_score_file
from asdf.runs.streams import descriptor_of
from asdf.text import and_more
from asdf.trials.run_folder import RunFolder, open_run_folder
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

_VALUES_SHOWN = 12


def describe_set(
    path: Path,
    scores: Scores,
    trials: TrialList | None,
    wanted: Mapping[str, tuple[str, ...]],
    evaluations: Sequence[Mapping[str, Any]],
) -> CalibrationSet:
    """Return the scores for calibration, with what is known about their set."""
    is_file = descriptor_of(path) is None
    layout = layout_of_score_file(path.absolute()) if is_file else None
    if trials is None and layout is not None:
        trials = RunFolder(layout.system).trials(corpus_of_file(path))
    if wanted:
        scores = select_where(scores, trials, wanted)
    return CalibrationSet(
        scores,
        corpus_of_file(path) if is_file else None,
        speakers_of(scores, trials),
        describe_where(wanted) or None,
        # The set may still have chosen the network, even if it is not known to have.
        (is_file and chose_network(path, evaluations)) or None,
    )


def choose_of_run(network: str, scores: Path | None) -> tuple[str, Path]:
    """Return the paths of a network and of its score file, given a network or a run.

    Args:
        network: Network as given; the folder of a run means its best network.
        scores: Score file; None: that of the first validation set of the run.

    Raises:
        UsageError: no score file is given, and the network is not a run with one.
        AsdfError: the run has no network yet.
    """
    folder = Path(network)
    # Only the folder of a run has recorded settings.
    if parse_name(network) is not None or not Layout(folder).settings.is_file():
        if scores is None:
            raise UsageError(
                f"the score file of {network} is missing: python -m asdf calibrate {network} "
                "SCORES. Only for the folder of a run is it optional."
            )
        return network, scores
    # Imported here because it imports torch, which takes seconds.
    from asdf.interchange import find_network

    path = find_network(network)
    name = NetworkName.parse(path.name)
    return str(path), scores or _validation_scores(open_run_folder(folder), folder, name)


def _validation_scores(run: RunFolder, folder: Path, name: NetworkName) -> Path:
    """Return the score file of the first validation set on which a network was evaluated."""
    layout = Layout(folder)
    for evaluation in run.evaluations():
        if evaluation.network == name:
            path = layout.score_file(name, next(iter(evaluation.eers)))
            if path.is_file():
                return path
    files = run.score_files().get(str(name), {})
    there = ", ".join(str(layout.score_file(name, corpus)) for corpus in files)
    raise UsageError(
        f"{name}, the best network of {folder}, has no scores on a validation set. Give one of its "
        f"score files: {there or 'there is none; run stage 2 of the recipe'}."
    )


def chose_network(scores: Path, records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the set of a score file was used to choose the network in training.

    This is so if several networks of the run were evaluated on a validation set of that name.

    Args:
        scores: Score file; if it is in a run, the run's records are read too.
        records: Records of evaluations in the network's file.
    """
    layout = layout_of_score_file(scores.absolute())
    evaluations = evaluations_in(list(records))
    if layout is not None:
        evaluations += RunFolder(layout.system).evaluations()
    networks = {each.network for each in evaluations if corpus_of_file(scores) in each.eers}
    return len(networks) > 1


def parse_where(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values of each column in 'codec=amr|gsm,language=fr'.

    Raises:
        UsageError: the text has another form, or contains a column twice.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        column, sign, values = part.partition("=")
        column = column.strip()
        named = tuple(value.strip() for value in values.split("|"))
        if not sign or not column or not all(named):
            raise UsageError(
                f"--where {text}: expected COLUMN=VALUE, with commas between columns and | between "
                "values of a column, as in codec=amr|gsm,language=fr."
            )
        if column in wanted:
            raise UsageError(
                f"--where {text}: {column} is given twice. Write its values once, with | between "
                "them."
            )
        wanted[column] = named
    return wanted


def describe_where(wanted: Mapping[str, Sequence[str]]) -> str:
    """Return a selection in words, 'codec=amr|gsm, language=fr'."""
    return ", ".join(f"{column}={'|'.join(values)}" for column, values in wanted.items())


def select_where(
    scores: Scores, trials: TrialList | None, wanted: Mapping[str, Sequence[str]]
) -> Scores:
    """Return the scored trials whose columns have the wanted values.

    Args:
        trials: Trials with their columns; None: only the columns of the scores are known.

    Raises:
        AsdfError: there is no such column or value, or no such trial of a class.
    """
    matches = np.ones(len(scores), bool)
    for column, values in wanted.items():
        cells = _cells_of(scores, trials, column)
        for value in values:
            if value not in cells:
                raise AsdfError(
                    f"--where {column}={value}: no trial matches. {_count_values(cells)}"
                )
        matches &= np.isin(cells, values)
    selected = scores.select(np.flatnonzero(matches))
    for name, label in (("bona fide", 1), ("spoofed", 0)):
        if (selected.labels == label).any():
            continue
        # What would remain under each condition alone.
        known = []
        for column in wanted:
            of_class = np.array(_cells_of(scores, trials, column))[scores.labels == label].tolist()
            known.append(f"{column} of the {name} trials: {_count_values(of_class)}")
        raise AsdfError(
            f"--where {describe_where(wanted)}: {len(selected):,} trials match, but none is "
            f"{name}, and a calibration needs both classes. {' '.join(known)}"
        )
    return selected


def _cells_of(scores: Scores, trials: TrialList | None, column: str) -> list[str]:
    """Return the value of each scored trial in a column, '' if unknown."""
    if trials is None:
        trials = scores
    if column not in trials.columns:
        names = sorted(trials.columns)
        there = f"Known columns: {', '.join(names)}." if names else "They have no columns."
        raise AsdfError(
            f"--where {column}=...: the trials have no such column. {there} Columns come from the "
            "label file of --protocol, or from the run that contains the scores."
        )
    cells = trials.columns[column]
    # Scores may have another order than the label file, or fewer trials.
    indices = map(trials.index_of, scores.ids)
    return ["" if index is None else cells[index] for index in indices]


def _count_values(cells: Sequence[str]) -> str:
    counts = Counter(cells).most_common()
    named = [f"{value or '(empty)'} ({count:,})" for value, count in counts]
    return f"Values: {and_more(named, _VALUES_SHOWN)}."
