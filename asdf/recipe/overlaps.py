"""What the evaluation sets of a run share with its training sets, as warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asdf.corpora import Chosen, choose, describe_overlaps, is_known
from asdf.errors import UsageError
from asdf.recipe.corpora import Corpus, count_shared, validation_sets
from asdf.recipe.leaving_out import left_out_of
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList


def find_overlaps(
    lists: Sequence[TrialList], settings: Sections, corpora: Mapping[str, Corpus]
) -> list[str]:
    """Return a sentence for each evaluation set that shares recordings or speech with a training
    set.

    Args:
        lists: those that the stages read; recordings are compared among them alone.
    """
    recipe = settings.recipe
    by_name = {utterances.name: utterances for utterances in lists}
    training = [name for name in recipe.training_sets if name in by_name]
    scored = list(dict.fromkeys([*_evaluated(settings), *_validated(settings)]))
    sentences: list[str] = []
    for name in scored:
        for trained in training:
            if name == trained or name not in by_name:
                continue
            shared = count_shared(by_name[trained], by_name[name])
            if shared:
                sentences.append(
                    f"{shared} recordings of {name} are also in the training set {trained}: "
                    "results on them are no test"
                )
    known = _known(recipe.training_sets, corpora)
    sentences += describe_overlaps(known, _known(scored, corpora))
    return sentences


def _validated(settings: Sections) -> tuple[str, ...]:
    # With recipe.leave_out a validation set may be the other part of a training set.
    return () if left_out_of(settings) else validation_sets(settings)


def _evaluated(settings: Sections) -> tuple[str, ...]:
    # Of those that are restricted nothing that is trained on is scored.
    return () if settings.recipe.evaluate_left_out else settings.recipe.evaluation_sets


def _known(names: Sequence[str], corpora: Mapping[str, Corpus]) -> list[Chosen]:
    """Return which corpora of the field the names mean; others are left out."""
    chosen = []
    parts: list[str] = []
    for name in names:
        # A set may be several, as in 'mlaad+m-ailabs'.
        parts += [name] if name in corpora else name.split("+")
    for name in parts:
        reader = corpora[name].reader if name in corpora else name
        try:
            if reader and is_known(reader):
                chosen.append(choose(reader))
        except UsageError:
            # Reported where the corpus is opened.
            continue
    return chosen
