from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.settings.config_files import Block, parse_blocks
from asdf.settings.loading import application_order, inheritance_mistakes


def parsed(text: str) -> tuple[dict[str, Block], list[str]]:
    blocks, mistakes = parse_blocks(text, "runs.py")
    assert mistakes == []
    return blocks, [str(mistake) for mistake in inheritance_mistakes(blocks)]


def test_rightmost_first_then_its_left_neighbour_then_the_block() -> None:
    blocks, mistakes = parsed(
        "child < parent < grandparent\n\nparent\n\ngrandparent < root\n\nroot\n"
    )
    assert mistakes == []
    assert application_order("child", blocks) == ["root", "grandparent", "parent", "child"]


def test_what_a_parent_inherits_comes_with_it() -> None:
    # base is applied again with p1, behind p2, as the rule says.
    blocks, _ = parsed("c < p1 < p2\n\np1 < base\n\np2 < base\n\nbase\n")
    assert application_order("c", blocks) == ["p2", "base", "p1", "c"]


def test_unknown_parent() -> None:
    _, mistakes = parsed("train\n\neval < trian < train\n")
    assert mistakes == [
        "runs.py:3: 'eval' inherits from 'trian', which is not a config; the nearest is 'train'"
    ]


def test_circular_inheritance_is_reported_once() -> None:
    _, mistakes = parsed("a < b\n\nb < c\n\nc < a\n\nd < a\n\ne < e\n")
    assert mistakes == [
        "runs.py:1: circular inheritance: a < b < c < a",
        "runs.py:9: circular inheritance: e < e",
    ]


def test_long_chains_and_wide_nets() -> None:
    chain = "".join(f"c{i} < c{i + 1}\n\n" for i in range(1500)) + "c1500\n"
    assert application_order("c0", parsed(chain)[0]) == [f"c{i}" for i in range(1500, -1, -1)]
    net = (
        "".join(f"n{i} < x{i} < y{i}\n\nx{i} < n{i + 1}\n\ny{i} < n{i + 1}\n\n" for i in range(60))
        + "n60\n"
    )
    assert len(application_order("n0", parsed(net)[0])) == 181


@st.composite
def block_nets(draw: st.DrawFn) -> tuple[list[tuple[str, list[str], dict[str, int]]], str]:
    """Blocks in a random order; parents only among 'older' ones, so that there is no circle."""
    count = draw(st.integers(1, 8))
    keys = st.sampled_from(
        ["network.max_epochs", "network.minibatch_size", "recipe.seed", "rawboost.algo"]
    )
    net = []
    for i in range(count):
        parents = (
            draw(st.lists(st.sampled_from([f"c{j}" for j in range(i)]), max_size=4)) if i else []
        )
        net.append((f"c{i}", parents, draw(st.dictionaries(keys, st.integers(1, 8)))))
    return draw(st.permutations(net)), f"c{count - 1}"


@given(block_nets())
@settings(deadline=None)
def test_values_are_those_of_the_plain_recursion(
    case: tuple[list[tuple[str, list[str], dict[str, int]]], str],
) -> None:
    net, wanted = case
    by_name = {name: (parents, values) for name, parents, values in net}

    def plain(name: str) -> dict[str, int]:
        parents, values = by_name[name]
        result: dict[str, int] = {}
        for parent in reversed(parents):
            result |= plain(parent)
        return result | values

    text = "\n".join(
        f"{' < '.join([name, *parents])}\n"
        + "".join(f"{key} = {value}\n" for key, value in values.items())
        for name, parents, values in net
    )
    blocks, mistakes = parse_blocks(text, "runs.py")
    assert mistakes == inheritance_mistakes(blocks) == []
    order = application_order(wanted, blocks)
    result = {a.target: a.value for part in order for a in blocks[part].assignments.values()}
    assert result == plain(wanted)
    assert isinstance(blocks[wanted], Block)
