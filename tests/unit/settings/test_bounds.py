"""A config of any length is read in a time that grows with it, and its message is short."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

import pytest

from asdf.settings import Settings, SettingsError, list_configs, literals
from asdf.settings.config_files import parse_blocks
from asdf.settings.loading import application_order, inheritance_mistakes

from .conftest import Write

LETTERS = 200_000


class CountingTokens:
    """`literals.TOKEN`, which counts the tokens that anybody looks at."""

    def __init__(self) -> None:
        self.pattern = literals.TOKEN
        self.count = 0

    def finditer(self, text: str, start: int = 0) -> Iterator[object]:
        for token in self.pattern.finditer(text, start):
            self.count += 1
            yield token


def tokens_visited(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    counting = CountingTokens()
    with monkeypatch.context() as patch:
        patch.setattr(literals, "TOKEN", counting)
        parse_blocks(text, "runs.py")
    return counting.count


@pytest.mark.parametrize(
    "piece",
    ["a = (\n\n", "a == [(\n\n", "a.b = (\n", "a.b = (\n\n", "n\n\n\na = (\n", "n\na = (\n\n1,\n"],
)
def test_brackets_that_are_not_closed_are_searched_once(monkeypatch, piece):
    few, many = (tokens_visited(monkeypatch, f"n\n{piece * count}") for count in (50, 500))
    assert few >= 50
    assert many <= 11 * few


def test_brackets_within_each_other_are_forgotten_one_by_one() -> None:
    # Refused for its depth; the list of open brackets is not copied for each that closes.
    depth = 200_000
    _, mistakes = parse_blocks(f"n\nsad.mode = {'(' * depth}{')' * depth}\n", "runs.py")
    assert [str(mistake) for mistake in mistakes] == [
        f"runs.py:2: sad.mode = {'(' * 30}…{')' * 29}: a value of more than 100000 characters is "
        "not allowed"
    ]


def test_a_call_with_named_arguments_is_one_mistake() -> None:
    text = "n\nnetwork.callbacks = dict(\n  a=1,\n  b=2,\n)\nrecipe.seed = x\n"
    assert [str(mistake).partition("; ")[0] for mistake in parse_blocks(text, "runs.py")[1]] == [
        "runs.py:2: network.callbacks = dict( a=1, b=2, ): dict(...) is a call, and nothing in a "
        "config is run",
        "runs.py:6: recipe.seed = x: x is a name",
    ]


class CountingBlocks(dict):
    """Blocks that count how often one of them is looked up."""

    count = 0

    def __getitem__(self, name: str):
        self.count += 1
        return super().__getitem__(name)


def look_ups(text: str, work: Callable[[CountingBlocks], object]) -> int:
    blocks = CountingBlocks(parse_blocks(text, "runs.py")[0])
    work(blocks)
    return blocks.count


def chain(length: int) -> str:
    return "".join(f"c{i} < c{i + 1}\n\n" for i in range(length)) + f"c{length}\n"


@pytest.mark.parametrize(
    "work", [inheritance_mistakes, lambda blocks: application_order("c0", blocks)]
)
def test_a_chain_of_configs_is_walked_once(work: Callable[[CountingBlocks], object]) -> None:
    few, many = look_ups(chain(100), work), look_ups(chain(1000), work)
    assert 100 <= few <= 300
    assert many <= 11 * few


def test_ten_thousand_chained_configs(init: Write, runs: Write) -> None:
    init("")
    text = chain(10_000).replace("c10000\n", "c10000\nrecipe.seed = 7\n")
    for account in Settings().load_settings(runs(text), ["c0"]):
        assert Settings().recipe.seed == 7
        assert len(account) < 1000
    listed = list_configs("runs.py")
    assert listed.count("\n") == 10_000
    assert max(map(len, listed.splitlines())) <= 80


def test_a_circle_of_ten_thousand_configs() -> None:
    text = "".join(f"c{i} < c{(i + 1) % 10_000}\n\n" for i in range(10_000))
    shown = " < ".join(f"c{i}" for i in range(10))
    assert [str(mistake) for mistake in inheritance_mistakes(parse_blocks(text, "runs.py")[0])] == [
        f"runs.py:1: circular inheritance: {shown} < (9990 more) < c0"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a\n" + "".join(f"network.unknown_{i} = 1\n" for i in range(20_000)),
        "a < " + " < ".join(f"parent{i}" for i in range(20_000)) + "\n",
    ],
    ids=["settings", "parents"],
)
def test_of_twenty_thousand_mistakes_some_are_shown_and_the_rest_counted(
    init: Write, runs: Write, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    init("")
    searches = []
    search = difflib.get_close_matches
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda *a, **k: searches.append(a) or search(*a, **k)
    )
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs(runs(text), ["a"])
    message = str(caught.value).splitlines()
    assert message[0] == "20,000 mistakes in the settings:"
    assert len(message) == 32 and message[-1] == "  ... and 19,970 more"
    assert len("\n".join(message)) < 10_000
    assert len(searches) <= 30


@pytest.mark.parametrize(
    ("text", "names", "overrides"),
    [
        (f"a\nnetwork.{'x' * LETTERS} = 1\n", ["a"], []),
        (f"a\n{'x' * LETTERS} = 1\n", ["a"], []),
        (f"a\n{'x' * LETTERS}.y = 1\n", ["a"], []),
        (f"a\nsad.mode = {'x' * 99_000}\n", ["a"], []),
        (f"a\nnetwork.network_class = '{'x' * 99_000}'\n", ["a"], []),
        (f"a\nnetwork.adam_betas = (1, '{'x' * 99_000}')\n", ["a"], []),
        (f"a\nrecipe.training_sets = ('{'x' * 49_000}', '{'x' * 49_000}')\n", ["a"], []),
        (f"a\npaths.output_folder = '{'$A' * 40_000}${'B' * 10_000}'\n", ["a"], []),
        (f"{'a' * LETTERS}\nsad.mode = 1\n\n{'a' * LETTERS}\n", ["a" * LETTERS], []),
        (f"a < {'b' * LETTERS}\n", ["a"], []),
        (f"{'a' * LETTERS} < b\n", ["a"], []),
        (f"{'a' * LETTERS} < {'b' * LETTERS}\n\n{'b' * LETTERS} < {'a' * LETTERS}\n", ["a"], []),
        (f"{'a' * LETTERS}\n\nsad.mode = 'on'\n", ["a"], []),
        ("a\n", ["x" * LETTERS], []),
        ("a\n", ["a"], [f"{'x' * LETTERS}=1"]),
        ("a\n", ["a"], [f"sad.mode={'x' * LETTERS}"]),
        ("a\n", ["a"], ["recipe.seed=1", f"recipe.seed={'1' * LETTERS}"]),
    ],
)
def test_names_and_values_of_many_letters_make_short_messages(
    init: Write, runs: Write, text: str, names: list[str], overrides: list[str]
) -> None:
    init("")
    with pytest.raises(SettingsError) as caught:
        Settings().read_configs(runs(text), names, overrides)
    assert len(str(caught.value)) < 1000
    with pytest.raises(SettingsError) as caught:
        Settings().explain("x" * LETTERS)
    assert len(str(caught.value)) < 1000
