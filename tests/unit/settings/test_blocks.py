from __future__ import annotations

from pathlib import Path

import pytest

from asdf.settings.config_files import Block, parse_assignments, parse_blocks, read_text
from asdf.settings.literals import KINDS
from asdf.settings.mistakes import SettingsError


def blocks_of(text: str) -> dict[str, Block]:
    blocks, mistakes = parse_blocks(text, "runs.py")
    assert mistakes == []
    return blocks


OUTSIDE = "'network.max_epochs = 3' is not in a config"
ENDED = ": a blank line above ended 'a' (line 1); remove that line, or begin a block with a name"
NO_NAME = (
    "is not a config name; names consist of letters, digits, '-', '_' and '.', optionally followed "
    "by < parent < grandparent"
)
NO_LINE = "is not a line of the form section.name = value"


def test_blocks_with_parents_values_locations_and_comments() -> None:
    blocks = blocks_of(
        "# text of the file\n\n"
        "# what a is for\n"
        "a\n"
        "network.max_epochs = 3 # because\n"
        "# more\n"
        "\tnetwork.optimizer='adam'\n"
        "\n \t\n"
        "b.1-x_2 <a<  c   # the second\n"
        "\n"
        "c"
    )
    assert {name: block.parents for name, block in blocks.items()} == {
        "a": (),
        "b.1-x_2": ("a", "c"),
        "c": (),
    }
    assert blocks["b.1-x_2"].header == "b.1-x_2 < a < c"
    assert blocks["a"].comments == ["what a is for"]
    assert blocks["b.1-x_2"].comments == ["the second"]
    assert blocks["c"].comments == []
    first, second = blocks["a"].assignments.values()
    assert (first.target, first.value, first.text, first.comment) == (
        "network.max_epochs",
        3,
        "3",
        "because",
    )
    assert (second.target, second.value, second.location.line) == ("network.optimizer", "adam", 7)
    assert str(first.location) == "runs.py:5"
    assert first.location.block == "a"


def test_a_value_goes_on_inside_its_brackets() -> None:
    text = (
        "a\nrecipe.evaluation_sets = [  # these\n 'x', # ] one\n\n\n  'y#z',\n]  # two\n"
        "network.max_epochs = 2\n"
    )
    first, second = blocks_of(text)["a"].assignments.values()
    assert first.value == ["x", "y#z"]
    assert first.comment == "two"
    assert (second.value, second.location.line) == (2, 8)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_byte_order_mark_and_missing_last_newline(tmp_path, ending, last, mark):
    text = f"a{ending}\tnetwork.max_epochs\t=\t3\t{ending}{ending}"
    text += f"b < a{ending}sad.mode = ('off'){ending if last else ''}"
    (tmp_path / "runs.py").write_bytes(mark + text.encode())
    blocks = blocks_of(read_text(tmp_path / "runs.py", "run configs"))
    assert [(a.target, a.value) for a in blocks["a"].assignments.values()] == [
        ("network.max_epochs", 3)
    ]
    assert [(a.target, a.value, a.location.line) for a in blocks["b"].assignments.values()] == [
        ("sad.mode", "off", 5)
    ]


def test_unusual_line_separators_inside_a_string_are_no_line_ends() -> None:
    blocks = blocks_of("a\npaths.output_folder = 'x\u2028\x85\x0cy'\n")
    assert blocks["a"].assignments["paths.output_folder"].value == "x\u2028\x85\x0cy"


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("a\n\nnetwork.max_epochs = 3\nsad.mode = 'off'\n", [f"3: {OUTSIDE}{ENDED}"]),
        ("a\n# about a\n\n# more\nnetwork.max_epochs = 3\n", [f"5: {OUTSIDE}{ENDED}"]),
        (
            "network.max_epochs = 3\n",
            [f"1: {OUTSIDE}; begin the block with a line containing its name"],
        ),
        (
            "a\nsad.mode = 'off'\nb < a\nsad.mode = 'on'\n",
            ["3: 'b < a' is inside config 'a'; a config begins after a blank line"],
        ),
        (
            "a\n\nb\n\na\nsad.mode = 'on'\n",
            ["5: config 'a' is defined twice; the first is on line 1"],
        ),
        (
            "a\nsad.mode = 'on'\nnetwork.max_epochs = 1\nsad.mode = 'off'\n",
            ["4: sad.mode is set twice; the first is on line 2"],
        ),
        ("my config\nsad.mode = 'on'\n", [f"1: 'my config' {NO_NAME}"]),
        ("a < \n", [f"1: 'a <' {NO_NAME}"]),
        ("a\nimport os\n", [f"2: 'import os' {NO_LINE}"]),
        ("a\nnetwork.x += 1\n", [f"2: 'network.x += 1' {NO_LINE}"]),
        ("a\nnetwork['x'] = 1\n", [f"2: 'network['x'] = 1' {NO_LINE}"]),
        (
            "a\nsad.mode = (\n1,\n\nb < a\nsad.mode = 2\n",
            ["2: sad.mode = (: the bracket ( is not closed"],
        ),
        (
            "a\nsad.mode = 'off\nnetwork.max_epochs = (1,\n 2,\nnetwork.x = 1",
            [
                "2: sad.mode = 'off: the quote ' is not closed on its line",
                "3: network.max_epochs = (1,: the bracket ( is not closed",
            ],
        ),
        (
            "a\nrecipe.evaluation_sets = (\n  'x',\n  y,\n)\nsad.mode = 1 / 0\n",
            [
                f"4: recipe.evaluation_sets = ( 'x', y, ): y is a name; {KINDS}",
                "6: sad.mode = 1 / 0: division by zero",
            ],
        ),
    ],
)
def test_mistakes(text: str, mistakes: list[str]) -> None:
    found = parse_blocks(text, "runs.py")[1]
    assert [str(mistake) for mistake in found] == [f"runs.py:{line}" for line in mistakes]


def test_blocks_behind_a_mistake_are_read_as_if_it_were_right() -> None:
    blocks, _ = parse_blocks("a\nsad.mode = (\n1,\n\nb < a\nsad.mode = 2\n", "runs.py")
    assert list(blocks) == ["a", "b"]
    assert [assignment.value for assignment in blocks["b"].assignments.values()] == [2]


def test_init_config_takes_any_order() -> None:
    assignments, mistakes = parse_assignments(
        "\n# x\nsad.mode = 'on'\n\n\nnetwork.max_epochs = 1 # y\n# z", "init.py"
    )
    assert mistakes == []
    assert [(a.target, a.value, a.location.line, a.comment) for a in assignments] == [
        ("sad.mode", "on", 3, ""),
        ("network.max_epochs", 1, 6, "y"),
    ]

    _, mistakes = parse_assignments("train\nsad.mode = 'on'\n", "init.py")
    assert [str(mistake) for mistake in mistakes] == [
        "init.py:1: 'train' is not a line of the form section.name = value"
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("latin.py", "/latin.py:2: byte 0xe4 is not UTF-8; save the file as UTF-8"),
        ("none.py", "/none.py: there is no such file; the run configs should be there"),
        ("", ": the run configs cannot be read: Is a directory"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "latin.py").write_bytes("a\n# ä\n".encode("latin-1"))
    with pytest.raises(SettingsError) as caught:
        read_text(tmp_path / name, "run configs")
    assert str(caught.value) == f"{tmp_path}{message}"
