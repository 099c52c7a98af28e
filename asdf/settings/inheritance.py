"""Which blocks make up a config, and in which order they are applied.

Invariant: `child < parent < grandparent` applies the right-most first, then the next to its left, then the child's
own lines, and each parent brings what it inherits itself. A block that comes in several times is applied only the
last time: what it set earlier it would set again anyway, and so a net of parents cannot grow without bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from asdf.settings.blocks import Block
from asdf.settings.mistakes import Collector, Mistake, nearest


def application_orders(blocks: Mapping[str, Block]) -> tuple[dict[str, list[str]], list[Mistake]]:
    """For each config the names of the blocks to apply, first to last, and the mistakes in what they inherit from."""
    found = Collector()
    for block in blocks.values():
        for parent in dict.fromkeys(block.parents):
            if parent not in blocks:
                others = [name for name in blocks if name != block.name]
                found.add(
                    block.place, f"'{block.name}' inherits from '{parent}', which is no config{nearest(parent, others)}"
                )
    orders: dict[str, list[str]] = {}
    for name in blocks:
        _complete(name, blocks, orders, found)
    return orders, found.mistakes


def _complete(name: str, blocks: Mapping[str, Block], orders: dict[str, list[str]], found: Collector) -> None:
    """Find the order of `name` and of all that it needs; a loop over a stack, as chains may be long."""
    path: list[str] = []
    stack = [name]
    while stack:
        current = stack[-1]
        if current in orders:
            stack.pop()
            continue
        parents = [parent for parent in blocks[current].parents if parent in blocks]
        if not path or path[-1] != current:
            path.append(current)
            for parent in parents:
                if parent in path:
                    circle = [*path[path.index(parent) :], parent]
                    found.add(blocks[parent].place, f"circular inheritance: {' < '.join(circle)}")
            stack += [parent for parent in parents if parent not in orders and parent not in path]
        else:
            inherited = (block for parent in reversed(parents) for block in orders.get(parent, ()))
            orders[current] = _last_occurrences([*inherited, current])
            path.pop()
            stack.pop()


def _last_occurrences(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(reversed(list(names))))[::-1]
