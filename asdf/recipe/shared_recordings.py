"""Recordings that scored sets share with training sets: as warnings, and in the run's record.

Invariant: recordings are compared, not names; a set that is a training set itself counts too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asdf.corpora import Chosen, choose, describe_overlaps, is_known, parse_part
from asdf.errors import UsageError
from asdf.recipe.declared_corpora import Corpus, count_shared, validation_sets
from asdf.recipe.leaving_out import left_out_of, training_lists
from asdf.recipe.left_out_sets import (
    evaluation_lists,
    needs_training_lists,
    validation_lists,
)
from asdf.settings.sections import Recipe
from asdf.trials.trial_list import TrialList


def find_overlaps(
    lists: Sequence[TrialList],
    recipe: Recipe,
    corpora: Mapping[str, Corpus],
) -> list[str]:
    """Return a sentence for each evaluation set that shares recordings or speech with a training
    set.

    Args:
        lists: Lists that the stages read; recordings are compared only between them.
    """
    by_name = {utterances.name: utterances for utterances in lists}
    training = [name for name in recipe.training_sets if name in by_name]
    scored: dict[str, None] = {}
    # Restricted evaluation sets contain no training data, and with recipe.leave_out a validation
    # set may be the other part of a training set.
    if not recipe.evaluate_left_out:
        scored |= dict.fromkeys(recipe.evaluation_sets)
    if not left_out_of(recipe):
        scored |= dict.fromkeys(validation_sets(recipe))
    trained_corpora = _known(recipe.training_sets, corpora)
    scored_corpora = _known(list(scored), corpora)
    known: list[str] = []
    if trained_corpora and scored_corpora:
        known = describe_overlaps(trained_corpora, scored_corpora)
    sentences: list[str] = []
    for name in scored:
        for trained in training:
            if name not in by_name:
                continue
            if name == trained:
                # The note of a public corpus may already say so.
                if not any(sentence.startswith(f"{name} is trained on") for sentence in known):
                    sentences.append(
                        f"{name} is a training set: results on it are not test results"
                    )
                continue
            shared = count_shared(by_name[trained], by_name[name])
            if shared:
                sentences.append(
                    f"{shared} recordings of {name} are also in the training set {trained}: "
                    "results on them are not test results"
                )
    return sentences + known


def count_overlaps(
    lists: Sequence[TrialList],
    recipe: Recipe,
    trains_here: bool,
) -> dict[str, dict[str, Any]]:
    """Return the recordings that each scored list shares with those of training and validation.

    Lists are the used parts of their sets, under the names of these parts.

    Args:
        lists: Lists that the stages read.
        trains_here: Whether networks of this run were or are trained on its training sets.
    """
    by_name = {utterances.name: utterances for utterances in lists}
    whole = [by_name[name] for name in recipe.training_sets if name in by_name]
    if needs_training_lists(recipe) and len(whole) < len(recipe.training_sets):
        return {}
    trained = training_lists(recipe, whole) if trains_here and whole else []
    validated = [by_name[name] for name in validation_sets(recipe) if name in by_name]
    validated = validation_lists(recipe, validated, whole)
    evaluated = [by_name[name] for name in recipe.evaluation_sets if name in by_name]
    scored = [*validated, *evaluation_lists(recipe, evaluated, whole)]
    counts = {}
    for utterances in scored:
        record: dict[str, Any] = {"trials": len(utterances)}
        record["trained_on"] = _count_each(utterances, trained)
        record["validated_on"] = _count_each(utterances, validated)
        counts[utterances.name] = record
    return counts


def _count_each(utterances: TrialList, others: Sequence[TrialList]) -> dict[str, int]:
    """Return the number of recordings that a list shares with each other list, if not zero."""
    counts = {}
    for other in others:
        shared = count_shared(other, utterances)
        if shared:
            counts[other.name] = shared
    return counts


def _known(names: Sequence[str], corpora: Mapping[str, Corpus]) -> list[Chosen]:
    """Return the public corpora among the names; others are left out."""
    chosen = []
    parts: list[str] = []
    for name in names:
        # A set may consist of several corpora, as in 'mlaad+m-ailabs'.
        parts += [name] if name in corpora else name.split("+")
    for name in parts:
        try:
            if name not in corpora:
                name, _ = parse_part(name)
            reader = corpora[name].reader if name in corpora else name
            if reader and is_known(reader):
                chosen.append(choose(reader))
        except UsageError:
            # This is reported when the corpus is opened.
            continue
    return chosen
