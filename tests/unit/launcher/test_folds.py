"""Which attacks and speakers each fold leaves out, and what makes a run a fold."""

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.launcher.folds import Fold, divide_into_folds, fold_overrides
from asdf.recipe import Corpus
from asdf.recipe.command_line import corpora_of
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList


def speech(utterances: dict[str, int], attacks=(), name="train") -> TrialList:
    """Bona fide utterances of each speaker, and a spoof by voice v per attack."""
    speakers = [speaker for speaker, count in utterances.items() for _ in range(count)]
    genuine = len(speakers)
    columns = {"speaker": [*speakers, *("v" * len(attacks))]}
    columns["attack"] = ["-"] * genuine + list(attacks)
    labels = [1] * genuine + [0] * len(attacks)
    ids = [f"{name}/{index}.wav" for index in range(len(labels))]
    return TrialList(ids, labels, columns=columns, name=name)


def test_attacks_are_taken_in_turn_and_speakers_so_that_folds_are_even():
    # Largest first: e to 1, a to 2, then b to 2 (3 < 5), c and d to 2 and 1 at 5 each: by number.
    train = speech({"a": 3, "b": 2, "c": 2, "d": 1, "e": 5}, ["A10", "A02", "A01", "A02", "A03"])
    folds = divide_into_folds([train], "attack:2")
    assert folds == [
        Fold("attack", ("A01", "A02"), ("c", "e"), 1, 2),
        Fold("attack", ("A03", "A10"), ("a", "b", "d"), 2, 2),
    ]
    assert [fold.name for fold in folds] == ["attack_A01_A02-fold1of2", "attack_A03_A10-fold2of2"]
    # The last fold has what is left, and several training sets are one.
    more = speech({"f": 9, "a": 1}, ["A11"], "more")
    folds = divide_into_folds([train, more], "attack:2")
    assert [(fold.values, fold.speakers) for fold in folds] == [
        (("A01", "A02"), ("f",)),
        (("A03", "A10"), ("c", "e")),
        (("A11",), ("a", "b", "d")),
    ]


def test_equal_speakers_go_by_name_to_the_first_of_equal_folds():
    train = speech({"d": 1, "b": 1, "a": 1, "c": 1, "": 7, "-": 7}, ["A1", "A2"])
    folds = divide_into_folds([train], "attack:1")
    assert [fold.speakers for fold in folds] == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("speakers", "attacks", "message"),
    [
        (
            {"a": 3},
            ["A1", "A2", "A3"],
            "2 folds need as many genuine speakers, but train have 1 in",
        ),
        ({"a": 3, "b": 1}, ["A1", "A2"], "at least two folds are needed, but the spoofs of train"),
        ({"a": 3, "b": 1}, ["A1", "A2"], " have 2 values of 'attack': A1, A2."),
        ({"a": 3}, [], "have 0 values of 'attack': none."),
    ],
)
def test_lists_that_make_no_folds_are_refused(speakers, attacks, message):
    with pytest.raises(UsageError, match=f"^--folds attack:2: .*{message}"):
        divide_into_folds([speech(speakers, attacks)], "attack:2")


def test_a_request_is_a_column_and_a_number():
    for text in ("attack", "attack:0", ":2", "attack:x"):
        with pytest.raises(UsageError, match=f"--folds {text}: write a column and how many"):
            divide_into_folds([], text)


def test_a_fold_evaluates_all_that_it_leaves_out():
    fold = Fold("attack", ("A01",), ("s",), 1, 2)
    corpora = {name: Corpus(f"{name}.txt") for name in ("train", "dev", "eval")}
    settings = Sections()
    settings.recipe.training_sets = ("train",)
    settings.recipe.validation_sets = ("train+dev",)
    settings.recipe.evaluation_sets = ("eval",)
    common = ["recipe.leave_out=('attack', 'A01')", "recipe.leave_out_speakers=('s',)"]
    common.append("recipe.evaluate_left_out=True")
    # Each corpus once.
    all_of_it = "recipe.evaluation_sets=('train+dev',)"
    assert fold_overrides(fold, settings, corpora) == [*common, all_of_it]
    # Without validation sets those that were evaluated choose the network, as without folds.
    settings.recipe.validation_sets = None
    sets = ["recipe.evaluation_sets=('train+eval',)", "recipe.validation_sets=('eval',)"]
    assert fold_overrides(fold, settings, corpora) == [*common, *sets]
    settings.recipe.validation_sets = ()
    assert fold_overrides(fold, settings, corpora)[-1] == "recipe.evaluation_sets=('train',)"


def test_a_long_name_of_a_fold_is_cut_and_safe():
    fold = Fold("codec", ("a/b c", "x" * 50), ("s",), 3, 12)
    assert fold.name == f"codec_a_b_c_{'x' * 28}-fold3of12"


def test_a_recipe_is_asked_for_its_corpora_without_running(tmp_path):
    run = tmp_path / "run.py"
    run.write_text(
        "from pathlib import Path\n"
        "from asdf.recipe import Corpus, open_recipe\n"
        "names = ['a', 'b']\n"
        "CORPORA = {name: Corpus(f'{name}.txt') for name in names}\n"
        "with open_recipe(__file__, CORPORA) as recipe:\n"
        "    Path(__file__).with_name('ran').touch()\n"
    )
    assert corpora_of(run) == {name: Corpus(f"{name}.txt") for name in "ab"}
    assert not (tmp_path / "ran").exists()
    run.write_text("print('hello')\n")
    with pytest.raises(UsageError, match=r"does not call asdf\.recipe\.open_recipe"):
        corpora_of(run)
    run.write_text("import nosuchmodule\n")
    with pytest.raises(AsdfError, match="cannot be read: ModuleNotFoundError"):
        corpora_of(run)
