"""Which rows `recipe.leave_out` takes off training, and which ones validation retains."""

import re
from dataclasses import replace

import numpy as np
import pytest

from asdf.errors import AsdfError, UsageError
from asdf.recipe.left_out import LeaveOut, UsedSets, evaluated_name, left_out_of
from asdf.recipe.used_sets import check_classes
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList, join

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


def used(chosen: Sections, training) -> UsedSets:
    """The sets of settings whose training sets are these."""
    names = tuple(part.name for part in training)
    return UsedSets(replace(chosen.recipe, training_sets=names), training)


def trained(chosen: Sections, lists) -> list[TrialList]:
    return used(chosen, lists).trained()


def validated(chosen: Sections, utterances: TrialList, training=()) -> TrialList:
    return used(chosen, training).of_validation(utterances).utterances


def evaluated(chosen: Sections, utterances: TrialList, training=()) -> TrialList:
    return used(chosen, training).of_evaluation(utterances).utterances


def rows(indices: np.ndarray) -> list[int]:
    return indices.tolist()


def test_attacks_are_trained_without_and_validated_with_all_bona_fide_trials():
    left_out = LeaveOut("attack", ("A01", "A03"))
    assert rows(left_out.training_rows(corpus())) == [0, 1, 3]
    assert rows(left_out.left_out_rows(corpus())) == [0, 1, 2, 4, 5]
    restricted = validated(settings("attack", "A01", "A03"), corpus())
    assert restricted.name == "dev.attack=A01,A03"
    assert restricted.columns["attack"] == ["-", "-", "A01", "A03", "A01"]
    trained = corpus().select(left_out.training_rows(corpus()))
    assert trained.name == "dev" and trained.columns["attack"] == ["-", "-", "A02"]


def test_a_column_of_bona_fide_trials_restricts_them_as_well():
    left_out = LeaveOut("speaker", ("s",))
    assert rows(left_out.training_rows(corpus())) == [1, 3, 4, 5]
    assert rows(left_out.left_out_rows(corpus())) == [0, 2]
    # Not even where the value is one of spoofs alone.
    assert rows(LeaveOut("speaker", ("u",)).left_out_rows(corpus())) == [4, 5]
    # A codec that a corpus does not know of its bona fide trials is a matter of the spoofs.
    codecs = corpus(codec=["", "-", "mp3", "", "mp3", "gsm"])
    assert rows(LeaveOut("codec", ("mp3",)).left_out_rows(codecs)) == [0, 1, 2, 4]


def test_a_list_that_does_not_know_the_column_is_trained_on_whole():
    left_out = LeaveOut("attack", ("A01",))
    plain = corpus(speaker=SPEAKERS)
    assert rows(left_out.training_rows(plain)) == list(range(6))
    parts = trained(settings("attack", "A01"), [plain, corpus("more")])
    assert [len(part) for part in parts] == [6, 4]
    assert left_out.whole_parts([plain, corpus("more")]) == [
        "dev has no column 'attack': all of it is trained on"
    ]


def test_by_default_nothing_is_left_out():
    lists = [corpus("train"), corpus()]
    assert left_out_of(settings().recipe) is None
    assert trained(settings(), lists[:1]) == lists[:1]
    assert validated(settings(), lists[1]) is lists[1]


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
    names = []
    for value in ("fr/ca", "fr ca"):
        names.append(validated(settings("language", value), odd).name)
    assert all(name.startswith("dev.language=fr_ca-") for name in names)
    assert len(set(names)) == 2
    many = LeaveOut("speaker", ("s", *(f"speaker{i}" for i in range(500))))
    name = many.short_name
    assert len(name) < 80 and name.startswith("speaker=s,speaker0,speaker1,")


# Speakers apart: s1 and s2 are genuine, s2 is copied by A02, and v speaks for a synthesiser.
SPOOFS = ("s1 A01", "s2 A02", "v A01", "v A02", "s1 A02")
KINDS = [("s1", "-", 1), ("s2", "-", 1), *((*spoof.split(), 0) for spoof in SPOOFS)]


def apart(name: str, kinds=KINDS, folder: str = "") -> TrialList:
    speakers, attacks, labels = zip(*kinds, strict=True)
    ids = [f"{folder or name}/{index}.wav" for index in range(len(kinds))]
    return TrialList(ids, labels, columns={"speaker": speakers, "attack": attacks}, name=name)


def by_speakers(*leave_out, speakers=("s1",), evaluate=False) -> Sections:
    made = settings(*leave_out)
    made.recipe.leave_out_speakers = speakers
    made.recipe.evaluate_left_out = evaluate
    return made


def ids(lists) -> list[str]:
    return [utterance for part in lists for utterance in part.ids]


def test_speakers_are_left_out_with_all_that_they_say():
    chosen = by_speakers("attack", "A02")
    train = apart("train")
    assert ids(trained(chosen, [train])) == ["train/1.wav", "train/4.wav"]
    # The genuine speech of s1; of A02 the copies of s1 and the voice that speaks for itself.
    restricted = validated(chosen, apart("dev"), [train])
    assert restricted.ids == ["dev/0.wav", "dev/5.wav", "dev/6.wav"]
    assert restricted.name == "dev.attack=A02.speaker=s1"
    # A voice that speaks for itself in validation, and is genuine in training, is a speaker there.
    heard = apart("train", [*KINDS, ("v", "-", 1)])
    restricted = validated(chosen, apart("dev"), [heard])
    assert restricted.ids == ["dev/0.wav", "dev/6.wav"]
    assert left_out_of(chosen.recipe).describe() == "attack A02 and speaker s1"


def test_speakers_alone_are_the_values_of_their_column():
    chosen = by_speakers()
    train, dev = apart("train"), apart("dev")
    assert ids(trained(chosen, [train])) == [f"train/{row}.wav" for row in (1, 3, 4, 5)]
    named = settings("speaker", "s1")
    for lists in (chosen, named):
        restricted = validated(lists, dev, [train])
        assert restricted.ids == ["dev/0.wav", "dev/2.wav", "dev/6.wav"]
        assert restricted.name == "dev.speaker=s1"


def test_what_is_left_out_is_evaluated_and_the_rest_validated():
    chosen = by_speakers("attack", "A02", evaluate=True)
    train, dev = apart("train"), apart("dev")
    rest = validated(chosen, dev, [train])
    assert rest.ids == ["dev/1.wav", "dev/4.wav"]
    assert rest.name == "dev.without-attack=A02.speaker=s1"
    joined = join([train, dev])
    part = evaluated(chosen, joined, [train])
    expected = [f"{name}:{name}/{row}.wav" for name in ("train", "dev") for row in (0, 5, 6)]
    assert list(part.ids) == expected
    assert part.name == "train+dev.attack=A02.speaker=s1"
    assert part.name == evaluated_name(chosen.recipe, joined.name)
    # Without the setting evaluation sets stay whole.
    assert evaluated(by_speakers("attack", "A02"), joined, [train]) is joined
    assert evaluated_name(by_speakers("attack", "A02").recipe, "dev") == "dev"


def test_nothing_is_evaluated_that_is_trained_on():
    # Of attacks alone all genuine speech is trained on: what is left is that of other sets.
    chosen = by_speakers("attack", "A02", speakers=(), evaluate=True)
    train, dev = apart("train"), apart("dev")
    part = evaluated(chosen, join([train, dev]), [train])
    assert list(part.ids) == [
        *(f"train:train/{row}.wav" for row in (3, 5, 6)),
        *(f"dev:dev/{row}.wav" for row in (0, 1, 3, 5, 6)),
    ]
    # The same recordings under another name, and spelled otherwise.
    other = apart("other", folder="x/../train")
    part = evaluated(chosen, other, [train])
    assert part.ids == [f"x/../train/{row}.wav" for row in (3, 5, 6)]
    # Each recording counts once, and validation has none that is trained on.
    part = evaluated(chosen, join([dev, apart("again", folder="dev")]), [train])
    assert list(part.ids) == [f"dev:dev/{row}.wav" for row in (0, 1, 3, 5, 6)]
    rest = validated(chosen, train, [train])
    assert rest.ids == []


NO_SPEAKER = "recipe.leave_out_speakers: no utterance of the training sets has the speaker"
KNOWN = "The values of attack there: A01, A02, A03."


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            settings("attak", "A01"),
            "no column 'attak'. Did you mean 'attack'? They have attack, spe",
        ),
        (settings("attack", "A01", "A2"), f"has the attack 'A2'. Did you mean 'A02'? {KNOWN}"),
        (settings("attack", "-"), "no utterance of the training sets has the attack '-'."),
        (settings("attack"), "must be a column and values, such as ('attack'"),
        (
            by_speakers("attack", "A02", speakers=("ss",)),
            f"{NO_SPEAKER} 'ss'. Did you mean 's'? The values of speaker there: s, t, u.",
        ),
        (by_speakers(speakers=("xyz",)), f"{NO_SPEAKER} 'xyz'."),
        (by_speakers("speaker", "s2"), "leave_out_speakers = ('s1',) both name speakers: name all"),
        (
            by_speakers(speakers=(), evaluate=True),
            "recipe.evaluate_left_out = True, but nothing is",
        ),
    ],
)
def test_what_cannot_be_left_out_is_refused(chosen, message):
    with pytest.raises(UsageError) as caught:
        trained(chosen, [corpus("train")])
    assert message in str(caught.value)


def test_a_set_that_has_nothing_of_what_is_left_out_is_refused():
    chosen = settings("attack", "A09")
    lacking = "the validation set dev has no trial of attack A09, so it cannot measure what is left"
    with pytest.raises(UsageError, match=rf"{lacking} out\. {re.escape(KNOWN)} Choose values"):
        validated(chosen, corpus())
    with pytest.raises(UsageError, match="It has no column 'attack', or the column is empty"):
        validated(chosen, corpus(speaker=SPEAKERS))
    chosen = by_speakers("attack", "A02", evaluate=True)
    with pytest.raises(UsageError, match=r"the evaluation set dev has no trial of attack A02"):
        evaluated(chosen, apart("dev", KINDS[:3]), [apart("train")])
