"""Which blocks make up a config, and in which order they are applied.

Invariant: `child < parent < grandparent` applies the right-most first, then the next to its left, then the child's
own lines, and each parent brings what it inherits itself. A block that comes in several times is applied only the
last time: what it set earlier it would set again anyway. So a net of parents cannot grow without bound, and a config
is put together in a time that grows with the number of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from asdf.settings.blocks import Block
from asdf.settings.mistakes import Collector, Mistake, nearest, shortened

# Of a circle, so many names are shown.
_SHOWN = 10


def application_order(name: str, blocks: Mapping[str, Block]) -> list[str]:
    """The names of the blocks that make up the config `name`, first applied to last; unknown parents are left out."""
    # Backwards it is the walk that visits a block, then its parents from the left with all of theirs. Of a block that
    # is met again all ancestors have been met as well.
    backwards: dict[str, None] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        if current in backwards or current not in blocks:
            continue
        backwards[current] = None
        stack += reversed(blocks[current].parents)
    return list(backwards)[::-1]


def inheritance_mistakes(blocks: Mapping[str, Block]) -> list[Mistake]:
    """What is wrong in what the blocks inherit from: parents that are no configs, and circles."""
    found = Collector()
    for block in blocks.values():
        for parent in dict.fromkeys(block.parents):
            if parent not in blocks:
                found.add(
                    block.location,
                    f"'{shortened(block.name)}' inherits from '{shortened(parent)}', which is no "
                    "config",
                    partial(_nearest_other, parent, block.name, blocks),
                )
    ended: set[str] = set()
    for name in blocks:
        _find_circles(name, blocks, ended, found)
    return found.mistakes


def _nearest_other(parent: str, child: str, blocks: Mapping[str, Block]) -> str:
    return nearest(parent, (name for name in blocks if name != child))


def _find_circles(
    start: str, blocks: Mapping[str, Block], ended: set[str], found: Collector
) -> None:
    """Walk up from `start` through what has not `ended` yet; a loop over a stack, as chains may be long."""
    if start in ended:
        return
    path = [start]
    depths = {start: 0}
    waiting = [_parents(start, blocks)]
    while waiting:
        parent = next(waiting[-1], None)
        if parent is None:
            waiting.pop()
            ended.add(path[-1])
            del depths[path.pop()]
        elif parent in depths:
            found.add(blocks[parent].location, _circle(path, depths[parent]))
        elif parent not in ended:
            depths[parent] = len(path)
            path.append(parent)
            waiting.append(_parents(parent, blocks))


def _circle(path: Sequence[str], start: int) -> str:
    """The circle that closes with the last name of `path`, behind which the one at `start` comes again."""
    names = [shortened(name, 40) for name in path[start : start + _SHOWN]]
    rest = len(path) - start - len(names)
    if rest:
        names.append(f"({rest} more)")
    return f"circular inheritance: {' < '.join([*names, names[0]])}"


def _parents(name: str, blocks: Mapping[str, Block]) -> Iterator[str]:
    return (parent for parent in dict.fromkeys(blocks[name].parents) if parent in blocks)
