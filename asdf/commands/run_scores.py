"""A run's best network, with its scores on the set that it was chosen on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from asdf.errors import UsageError
from asdf.hub import parse_name
from asdf.runs.evaluations import evaluations_in
from asdf.runs.layout import Layout, NetworkName, corpus_of_file, layout_of_score_file
from asdf.trials.run_folder import RunFolder, open_run_folder


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
