"""Which rows `recipe.leave_out` takes off training, and which ones validation retains."""

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.corpora import check_classes
from asdf.recipe.leaving_out import LeaveOut, left_out_of, training_lists, validation_lists
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

LABELS = [1, 1, 0, 0, 0, 0]
ATTACKS = ["-", "-", "A01", "A02", "A03", "A01"]
SPEAKERS = ["s", "t", "s", "t", "u", "u"]


def corpus(name: str = "dev", **columns) -> TrialList:
    columns = columns or {"attack": ATTACKS, "speaker": SPEAKERS}
    return TrialList([f"{i}.wav" for i in range(6)], LABELS, columns=columns, name=name)


def settings(*leave_out, training=("train",), validation=("dev",)) -> Sections:
    made = Sections()
    made.recipe.leave_out = leave_out or None
    made.recipe.training_sets, made.recipe.validation_sets = training, validation
    made.recipe.evaluation_sets = validation
    return made


def rows(indices: np.ndarray) -> list[int]:
    return indices.tolist()


def test_attacks_are_trained_without_and_validated_with_all_bona_fide_trials():
    left_out = LeaveOut("attack", ("A01", "A03"))
    assert rows(left_out.training_rows(corpus())) == [0, 1, 3]
    assert rows(left_out.validation_rows(corpus())) == [0, 1, 2, 4, 5]
    restricted = left_out.for_validation(corpus())
    assert restricted.name == "dev.attack=A01,A03"
    assert restricted.columns["attack"] == ["-", "-", "A01", "A03", "A01"]
    trained = left_out.for_training(corpus())
    assert trained.name == "dev" and trained.columns["attack"] == ["-", "-", "A02"]


def test_a_column_of_bona_fide_trials_restricts_them_as_well():
    left_out = LeaveOut("speaker", ("s",))
    assert rows(left_out.training_rows(corpus())) == [1, 3, 4, 5]
    assert rows(left_out.validation_rows(corpus())) == [0, 2]
    # Not even where the value is one of spoofs alone.
    assert rows(LeaveOut("speaker", ("u",)).validation_rows(corpus())) == [4, 5]
    # A codec that a corpus does not know of its bona fide trials is a matter of the spoofs.
    codecs = corpus(codec=["", "-", "mp3", "", "mp3", "gsm"])
    assert rows(LeaveOut("codec", ("mp3",)).validation_rows(codecs)) == [0, 1, 2, 4]


def test_a_list_that_does_not_know_the_column_is_trained_on_whole():
    left_out = LeaveOut("attack", ("A01",))
    plain = corpus(speaker=SPEAKERS)
    assert rows(left_out.training_rows(plain)) == list(range(6))
    trained = training_lists(settings("attack", "A01"), [plain, corpus("more")])
    assert [len(part) for part in trained] == [6, 4]
    assert left_out.whole_parts([plain, corpus("more")]) == [
        "dev has no column 'attack': all of it is trained on"
    ]


def test_by_default_nothing_is_left_out():
    lists = [corpus("train"), corpus()]
    assert left_out_of(settings()) is None
    assert training_lists(settings(), lists[:1]) == lists[:1]
    assert validation_lists(settings(), lists[1:]) == lists[1:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("attak", "A01"),
            "the training sets have no column 'attak'. Did you mean 'attack'? They have attack, "
            "speaker.",
        ),
        (
            ("attack", "A01", "A2"),
            "no utterance of the training sets has the attack 'A2'. Did you mean 'A02'? The values "
            "of attack there: A01, A02, A03.",
        ),
        (("attack", "-"), "no utterance of the training sets has the attack '-'."),
    ],
)
def test_what_the_training_sets_do_not_have_is_refused(words, message):
    with pytest.raises(UsageError) as caught:
        training_lists(settings(*words), [corpus("train")])
    assert str(caught.value).startswith(f"recipe.leave_out: {message}")


def test_a_column_without_values_is_refused():
    for words in (("attack",), ()):
        made = settings()
        made.recipe.leave_out = words
        with pytest.raises(UsageError, match=r"is a column and its values, such as \('attack'"):
            left_out_of(made)


def test_a_validation_set_that_has_none_of_the_values_is_refused():
    with pytest.raises(UsageError) as caught:
        validation_lists(settings("attack", "A09"), [corpus()])
    assert (
        "the validation set dev has no trial of attack A09, so it says nothing of what is left "
        "out. The values of attack there: A01, A02, A03. Choose values" in str(caught.value)
    )
    with pytest.raises(UsageError, match="It has no column 'attack', or nothing in it"):
        validation_lists(settings("attack", "A09"), [corpus(speaker=SPEAKERS)])


def test_both_classes_must_be_left():
    chosen = settings("speaker", "u")
    with pytest.raises(AsdfError, match=r"dev\.speaker=u has 2 utterances, none of them bona fide"):
        check_classes([corpus("train"), corpus()], chosen)
    with pytest.raises(AsdfError, match="none of them spoof: training"):
        check_classes([corpus("train"), corpus()], settings("attack", "A01", "A02", "A03"))
    check_classes([corpus("train"), corpus()], settings("attack", "A01"))
    # A run that only scores has whole sets.
    chosen.recipe.start_stage = 2
    check_classes([corpus("train"), corpus()], chosen)


def test_the_name_of_a_restricted_set_is_one_of_a_file():
    odd = corpus(language=["de", "fr/ca", "de", "fr ca", "fr/ca", "x"])
    names = [
        LeaveOut("language", (value,)).for_validation(odd).name for value in ("fr/ca", "fr ca")
    ]
    assert all(name.startswith("dev.language=fr_ca-") for name in names)
    assert len(set(names)) == 2
    many = LeaveOut("speaker", ("s", *(f"speaker{i}" for i in range(500))))
    name = many.for_validation(corpus()).name
    assert len(name) < 80 and name.startswith("dev.speaker=s,speaker0,speaker1,")
