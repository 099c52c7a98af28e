"""Which blocks make up a config, and in which order they are applied.

Invariant: `child < parent < grandparent` applies the right-most first, then the next to its left,
then the child's own lines, and each parent brings what it inherits itself. A block that comes in
several times is applied only the last time: what it set earlier it would set again anyway. So a web
of parents cannot grow without bound, and a config is put together in a time that grows with the
number of its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from asdf.settings.blocks import Block
from asdf.settings.mistakes import Collector, Mistake, nearest, shortened

# A circle is shown by this many of its names.
_SHOWN = 10


def application_order(name: str, blocks: Mapping[str, Block]) -> list[str]:
    """Return the blocks that make up the config `name`, first applied to last, by their names.

    Unknown parents are left out.
    """
    # Backwards it is the walk that visits a block, then its parents from the left with all of
    # theirs. When a block is met again, all its ancestors have been met as well.
    backwards: dict[str, None] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        if current in backwards or current not in blocks:
            continue
        backwards[current] = None
        # Reversed, as a stack gives back the last first: the nearest parent is visited next.
        stack += reversed(blocks[current].parents)
    return list(backwards)[::-1]


def inheritance_mistakes(blocks: Mapping[str, Block]) -> list[Mistake]:
    """Return what is wrong in what the blocks inherit: parents that are no configs, and circles."""
    collector = Collector()
    for block in blocks.values():
        # A parent that is named twice is one mistake.
        for parent in dict.fromkeys(block.parents):
            if parent not in blocks:
                child = shortened(block.name)
                collector.add(
                    block.location,
                    f"'{child}' inherits from '{shortened(parent)}', which is no config",
                    partial(_nearest_other, parent, block.name, blocks),
                )
    finished: set[str] = set()
    for name in blocks:
        if name not in finished:
            _find_circles(name, blocks, finished, collector)
    return collector.mistakes


def _nearest_other(parent: str, child: str, blocks: Mapping[str, Block]) -> str:
    return nearest(parent, (name for name in blocks if name != child))


def _find_circles(
    start: str, blocks: Mapping[str, Block], finished: set[str], collector: Collector
) -> None:
    """Walk up from `start` through what is not `finished`; by a stack, as chains may be long."""
    path = [start]
    depths = {start: 0}
    waiting = [_known_parents(start, blocks)]
    while waiting:
        parent = next(waiting[-1], None)
        if parent is None:
            waiting.pop()
            name = path.pop()
            finished.add(name)
            del depths[name]
        # On the path from `start`: the walk has come back to it.
        elif parent in depths:
            collector.add(blocks[parent].location, _describe_circle(path, depths[parent]))
        elif parent not in finished:
            depths[parent] = len(path)
            path.append(parent)
            waiting.append(_known_parents(parent, blocks))


def _describe_circle(path: Sequence[str], start: int) -> str:
    """Describe the circle that leads from the last name of `path` back to the one at `start`."""
    shown = path[start : start + _SHOWN]
    names = [shortened(name, 40) for name in shown]
    rest = len(path) - start - len(names)
    if rest:
        names.append(f"({rest} more)")
    names.append(names[0])
    return f"circular inheritance: {' < '.join(names)}"


def _known_parents(name: str, blocks: Mapping[str, Block]) -> Iterator[str]:
    for parent in dict.fromkeys(blocks[name].parents):
        if parent in blocks:
            yield parent
