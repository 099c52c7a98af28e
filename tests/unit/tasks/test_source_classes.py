"""Which class of sources a trial is of."""

import numpy as np
import pytest

from asdf.errors import UsageError
from asdf.settings.sections import Source
from asdf.tasks.tracing.source_scores import (
    SourceClasses,
    classes_of_list,
    classes_of_trials,
    values_of,
)
from asdf.trials.trial_list import TrialList

ATTACKS = ["A02", "-", "A01", "A03", "", "-"]
LANGUAGES = ["fi", "sv", "fi", "sv", "", "fi"]
TRIALS = TrialList(
    list("abcdef"),
    np.array([0, 1, 0, 0, 0, 1], np.int8),
    columns={"attack": ATTACKS, "language": LANGUAGES, "codec": ["-"] * 6},
    name="mine",
)


def test_the_classes_are_the_values_of_spoofs() -> None:
    classes = classes_of_list(TRIALS, Source(column="attack"))
    assert classes == SourceClasses("attack", ("A01", "A02", "A03"), "left_out")
    assert classes_of_trials(TRIALS, classes).tolist() == [1, -1, 0, 2, -1, -1]


def test_the_settings_choose_classes_and_their_order() -> None:
    classes = classes_of_list(TRIALS, Source(column="attack", classes=("A03", "A01")))
    assert classes.names == ("A03", "A01")
    assert classes_of_trials(TRIALS, classes).tolist() == [-1, -1, 1, 0, -1, -1]


def test_bona_fide_trials_are_a_class_or_of_one() -> None:
    as_class = classes_of_list(TRIALS, Source(column="attack", bona_fide="class"))
    assert as_class.names == ("A01", "A02", "A03", "bona fide")
    assert classes_of_trials(TRIALS, as_class).tolist() == [1, 3, 0, 2, -1, 3]
    by_column = classes_of_list(TRIALS, Source(column="language", bona_fide="by_column"))
    assert classes_of_trials(TRIALS, by_column).tolist() == [0, 1, 0, 1, -1, 0]
    assert values_of(TRIALS, "language", "left_out") == ["fi", "-", "fi", "sv", "-", "-"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source(column="vocoder"), "needs the column 'vocoder' of mine, which has attack, lang"),
        (Source(column="attack", classes=("A01", "A1O")), "names 'A1O'.*Did you mean 'A01'"),
        (Source(column="attack", classes=("A01",)), r"has 1 class in it \(A01\), but two"),
        (Source(column="codec"), r"has 0 class in it \(none\)"),
    ],
)
def test_what_cannot_be_traced_is_refused(source: Source, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        classes_of_list(TRIALS, source)
