"""Names of systems are short, and no two are alike."""

import os
from pathlib import Path

import pytest

from asdf.commands.judged_files import names_of
from asdf.tables.table import labels_of
from asdf.text import numbered


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/dev.txt", "b/eval.txt.gz"], ["dev", "eval"]),
        (["n1/scores/epoch.3/dev.txt", "n2/scores/epoch.9/dev.txt"], ["n1/epoch.3", "n2/epoch.9"]),
        (["/x/dev.txt", "/y/dev.txt"], ["x", "y"]),
        (["dev.txt", "old/dev.txt"], ["dev", "old/dev"]),
        (["dev.txt", "dev.txt"], ["dev", "dev #2"]),
        (["epoch.3", "epoch.4"], ["epoch.3", "epoch.4"]),
        ([os.fsdecode(b"\xff.txt")], [r"\udcff"]),
    ],
)
def test_the_shortest_names_that_distinguish_files(paths, names):
    assert names_of([Path(path) for path in paths]) == names


def test_names_that_fit_stay_as_they_are():
    assert labels_of(["a-1", "a-2"], 3) == ["a-1", "a-2"]


def test_what_long_names_share_is_left_out_and_the_rest_cut_in_the_middle():
    names = [f"xlsr300m-asp_seed{i}-lr1e-{j}-seconds4-rawboost" for i in (0, 1) for j in (4, 5)]
    assert labels_of(names, 24) == ["seed0-lr1e-4", "seed0-lr1e-5", "seed1-lr1e-4", "seed1-lr1e-5"]
    assert labels_of(["a" * 30 + "1", "b" * 30 + "2"], 9) == ["aaaa…aaa1", "bbbb…bbb2"]
    assert labels_of(["x" * 50], 9) == ["xxxx…xxxx"]


def test_a_number_stays_with_the_word_that_it_belongs_to():
    names = [f"xlsr300m-asp_seed*-lr1e-{number}-freeze-rawboost" for number in (4, 5)]
    assert labels_of(names, 24) == ["lr1e-4", "lr1e-5"]
    names = [f"xlsr300m-asp-freeze-rawboost/epoch.{number}" for number in (9, 12)]
    assert labels_of(names, 24) == ["epoch.9", "epoch.12"]
    names = [f"xlsr300m-asp-freeze-{word}-rawboost" for word in ("2b", "300m")]
    assert labels_of(names, 24) == ["2b", "300m"]


def test_short_names_stay_whole_next_to_long_ones():
    long = [f"xlsr300m-{'x' * 30}-seed{i}-{'y' * 30}/epoch.4" for i in (1, 2)]
    assert labels_of(["AASIST", *long], 24) == ["AASIST", "seed1", "seed2"]
    clash = labels_of(["seed1", *long], 24)
    assert clash == ["seed1", "xlsr300m-x…y/epoch.4", "xlsr300m-x…y/epoch.4 #2"]


def test_short_names_that_share_an_end_with_long_ones_are_reduced_as_well():
    names = [f"quickstart-loss_{loss}-seed0" for loss in ("cross_entropy", "focal")]
    names += [name.replace("seed0", "seed1") for name in names]
    losses = ("cross_entropy", "focal")
    assert labels_of(names, 28) == [f"{loss}-seed{seed}" for seed in (0, 1) for loss in losses]


def test_labels_that_would_be_alike_get_numbers():
    names = [f"{'x' * 40}{letter}{'y' * 40}" for letter in "abc"]
    labels = labels_of(names, 24)
    assert labels == ["xxxxxxxxxx…yyyyyyyyy", "xxxxxxxxxx…yyyyyyyyy #2", "xxxxxxxxxx…yyyyyyyyy #3"]


def test_numbers_of_equal_names():
    assert numbered(["a", "a", "b", "a", "a #2"]) == ["a", "a #2", "b", "a #3", "a #2 #2"]
