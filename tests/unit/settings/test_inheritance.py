from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.settings.config_files import Block, parse_blocks
from asdf.settings.loading import application_order, inheritance_mistakes


def parsed(text: str) -> tuple[dict[str, Block], list[str]]:
    blocks, mistakes = parse_blocks(text, "runs.py")
    assert mistakes == []
    return blocks, [str(mistake) for mistake in inheritance_mistakes(blocks)]


def test_what_cannot_be_inherited_is_reported_once() -> None:
    circles = "a < b\n\nb < c\n\nc < a\n\nd < a\n\ne < e\n"
    _, mistakes = parsed(f"{circles}\ntrain\n\neval < trian < train\n")
    assert mistakes == [
        "runs.py:13: 'eval' inherits from 'trian', which is not a config; the nearest is 'train'",
        "runs.py:1: circular inheritance: a < b < c < a",
        "runs.py:9: circular inheritance: e < e",
    ]


def test_a_wide_net_is_walked_once() -> None:
    net = "".join(
        f"n{i} < x{i} < y{i}\n\nx{i} < n{i + 1}\n\ny{i} < n{i + 1}\n\n" for i in range(60)
    )
    assert len(application_order("n0", parsed(f"{net}n60\n")[0])) == 181


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
def test_values_are_those_of_the_plain_recursion(case):
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
