"""The sets that the chosen stages use, whether they have the classes needed, and what they share.

Invariant: recordings are compared, not names; a set that is a training set itself counts too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, combinations, product
from typing import Any, Literal

from asdf.corpora import Chosen, choose, describe_overlaps, is_known
from asdf.data.sampler_orders import join_with_copies
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.left_out import UsedSets, left_out_of, needs_training_lists
from asdf.settings.sections import SOURCE_METRICS, Recipe, Sections
from asdf.text import count_of
from asdf.trials.lists import check_both_classes
from asdf.trials.trial_list import TrialList, same_recording

# Advice for a training list of only bona fide speech.
WITHOUT_SPOOFS = " Spoofs can be made from bona fide speech: see vocoding.vocoders."
# Advice for a scored set of one class.
_OF_ONE_CLASS = (
    " A set of one class can be scored by itself: python -m asdf score NETWORK LIST > SCORES, then "
    "evaluate SCORES --threshold-from DEV_SCORES; or join it with another: 'mlaad+m-ailabs'."
)


def trains(settings: Sections) -> bool:
    """Whether the chosen stages train a network, rather than only score."""
    return settings.recipe.execute_stage(1) and not settings.network.scores_only


def sets_in_use(settings: Sections) -> list[str]:
    """Return the names of the corpora that the chosen stages read, each once."""
    recipe = settings.recipe
    measures = recipe.execute_stage(0)
    names: list[str] = []
    if measures or trains(settings):
        names += recipe.training_sets
    if measures or recipe.execute_stage(1):
        names += recipe.validated_sets
    if measures or recipe.execute_stage(2):
        names += recipe.evaluation_sets
    # Their lists, not their recordings, determine what is left out.
    if names and needs_training_lists(recipe):
        names += recipe.training_sets
    return list(dict.fromkeys(names))


def is_checked(name: str, settings: Sections) -> bool | Literal["once"]:
    """Whether each recording of the corpus `name` is fully decoded before training starts.

    The result is 'once' if files need not be checked again at later starts.
    """
    recipe = settings.recipe
    measures = recipe.execute_stage(0) or recipe.execute_stage(1)
    if not measures or settings.network.scores_only or name not in recipe.training_sets:
        return False
    return recipe.check_recordings


def learns_detection(settings: Sections) -> bool:
    """Whether training separates bona fide trials from spoofs, and so needs both classes."""
    return settings.source.column is None or settings.loss.detection_weight > 0


def check_classes(lists: Sequence[TrialList], settings: Sections) -> None:
    """Check that each of `lists` has the required classes, and is trained on only once.

    Raises:
        AsdfError: a list lacks a class, or shares recordings with another training set.
    """
    recipe = settings.recipe
    sets = UsedSets(recipe, lists)
    if sets.training and trains(settings):
        _check_trained(sets.trained() if sets.has_training else sets.training, settings)
    for utterances in lists:
        if utterances.count_unlabelled and utterances.name not in recipe.training_sets:
            raise UsageError(
                f"{utterances.name} has {utterances.count_unlabelled} recordings without labels, "
                "so it has no error rate. Remove it from recipe.validation_sets and "
                "recipe.evaluation_sets; a training step may use it in recipe.training_sets."
            )
    if not sets.knows_parts:
        return
    validated = sets.validated(restricted=recipe.execute_stage(1))
    scored = sets.evaluated(restricted=recipe.execute_stage(2))
    # Source tracing also works on lists of only spoofs.
    if settings.source.column is not None:
        scored = []
        if settings.network.validation_metric in SOURCE_METRICS:
            validated = []
    for utterances in [*scored, *validated]:
        check_both_classes(utterances, "an EER", _OF_ONE_CLASS, _OF_ONE_CLASS)


def _check_trained(training: Sequence[TrialList], settings: Sections) -> None:
    """Check the classes of training lists, and refuse lists that share recordings.

    Examples are 'asvspoof19' and 'asvspoof19:train'.
    """
    joined = join_with_copies(training, settings)
    unlabelled = joined.count_unlabelled
    if unlabelled and settings.network.training_step == "plain":
        names = ", ".join(part.name for part in training if part.count_unlabelled)
        raise UsageError(
            f"recipe.training_sets: {unlabelled} recordings of {names} have no labels, which the "
            "default training step cannot use. Set network.training_step to a class that can "
            "(docs/your_own.md), or remove them."
        )
    if unlabelled and (settings.localisation.enabled or settings.source.column is not None):
        raise UsageError(
            f"{unlabelled} recordings of recipe.training_sets have no labels, and "
            "localisation.enabled and source.column need labels. Remove these recordings, or "
            "switch the settings off."
        )
    if learns_detection(settings) and unlabelled < len(joined):
        check_both_classes(joined, "training", WITHOUT_SPOOFS)
    for first, second in combinations(training, 2):
        shared = count_shared(first, second)
        if shared:
            raise AsdfError(
                f"{shared} utterances are both in {first.name} and in {second.name}, and would be "
                "trained on twice: name only one of the two in recipe.training_sets."
            )


def count_shared(first: TrialList, second: TrialList) -> int:
    """Count the recordings that two lists share, however their paths are written."""
    # Paths with '..' may lead from one folder into another.
    climbs = any(".." in path for path in chain(first.ids, second.ids))
    if first.folder == second.folder and not climbs:
        known = set(map(same_recording, first.ids))
        return len(known.intersection(map(same_recording, second.ids)))
    first_inside = first.folder.is_relative_to(second.folder)
    second_inside = second.folder.is_relative_to(first.folder)
    if not (first_inside or second_inside or climbs):
        # Lists in different folders share nothing, so that millions of paths need not be compared.
        return 0
    paths = []
    for one in (first, second):
        paths.append({same_recording(f"{one.folder}/{utterance}") for utterance in one.ids})
    return len(paths[0] & paths[1])


def find_overlaps(
    lists: Sequence[TrialList], recipe: Recipe, corpora: Mapping[str, Corpus]
) -> list[str]:
    """Return a sentence for each evaluation set that shares recordings or speech with a training
    set.

    Args:
        lists: Lists that the stages read; recordings are compared only between them.
    """
    by_name = {utterances.name: utterances for utterances in lists}
    scored: dict[str, None] = {}
    # Restricted evaluation sets contain no training data, and with recipe.leave_out a validation
    # set may be the other part of a training set.
    if not recipe.evaluate_left_out:
        scored |= dict.fromkeys(recipe.evaluation_sets)
    if not left_out_of(recipe):
        scored |= dict.fromkeys(recipe.validated_sets)
    known = describe_overlaps(_known(recipe.training_sets, corpora), _known(scored, corpora))
    sentences: list[str] = []
    trained_sets = [name for name in recipe.training_sets if name in by_name]
    for name, trained in product(filter(by_name.__contains__, scored), trained_sets):
        if name != trained:
            shared = count_shared(by_name[trained], by_name[name])
            if shared:
                sentences.append(
                    f"{name} shares {count_of(shared, 'recording')} with the training set "
                    f"{trained}: results on them are not test results"
                )
        # The note of a public corpus may already say so.
        elif not any(sentence.startswith(f"{name} is trained on") for sentence in known):
            sentences.append(f"{name} is a training set: results on it are not test results")
    return sentences + known


def count_overlaps(
    lists: Sequence[TrialList], recipe: Recipe, trains_here: bool
) -> dict[str, dict[str, Any]]:
    """Return the recordings that each scored list shares with those of training and validation.

    Lists are the used parts of their sets, under the names of these parts.

    Args:
        lists: Lists that the stages read.
        trains_here: Whether networks of this run were or are trained on its training sets.
    """
    sets = UsedSets(recipe, lists)
    if not sets.knows_parts:
        return {}
    trained = sets.trained() if trains_here and sets.training else []
    validated = sets.validated()
    counts = {}
    for utterances in [*validated, *sets.evaluated()]:
        counts[utterances.name] = {
            "trials": len(utterances),
            "trained_on": _count_each(utterances, trained),
            "validated_on": _count_each(utterances, validated),
        }
    return counts


def _count_each(utterances: TrialList, others: Sequence[TrialList]) -> dict[str, int]:
    """Return the number of recordings that a list shares with each other list, if not zero."""
    counts = {other.name: count_shared(other, utterances) for other in others}
    return {name: count for name, count in counts.items() if count}


def _known(names: Iterable[str], corpora: Mapping[str, Corpus]) -> list[Chosen]:
    """Return the public corpora among the names; others are left out."""
    chosen = []
    for name in chain.from_iterable(set_parts(name, corpora) for name in names):
        with suppress(UsageError):  # it is reported when the corpus is opened
            reader = find_corpus(name, corpora).reader
            if reader and is_known(reader):
                chosen.append(choose(reader))
    return chosen
