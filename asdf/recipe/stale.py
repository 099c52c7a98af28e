"""Evaluations whose recordings were replaced later: they are marked, and not compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from asdf.recipe.run import Run
from asdf.runs.evaluations import Evaluation, mark_stale, read_evaluations, write_evaluations
from asdf.runs.layout import Layout
from asdf.trials.trial_list import TrialList


def mark_evaluations(run: Run, lists: Iterable[TrialList]) -> list[Evaluation]:
    """Return the run's evaluations, marking those on `lists` whose recordings have changed.

    The marks are written to evaluations.json. All ranks call this together.
    """
    layout = run.folders.layout
    evaluated: set[str] = set()
    for evaluation in run.world.run_on_main(partial(read_evaluations, layout)):
        evaluated.update(evaluation.recordings)
    recordings = {}
    for utterances in lists:
        # The digests of other lists are unknown, so nothing is known about them.
        if utterances.name in evaluated:
            recordings[utterances.name] = run.describe_recordings(utterances)["recordings"]
    return run.world.run_on_main(partial(_mark, layout, recordings))


def _mark(layout: Layout, recordings: Mapping[str, str]) -> list[Evaluation]:
    evaluations = read_evaluations(layout)
    marked = mark_stale(evaluations, recordings)
    if marked != evaluations:
        write_evaluations(layout, marked)
    return marked
