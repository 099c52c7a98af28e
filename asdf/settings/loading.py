"""Configs from the files and the command line, ready to be applied.

Invariants: all mistakes are found before anything is returned, and a command reads each file once,
so later edits do not affect a running command.

`child < parent < grandparent` applies the right-most first, then the next to its left, then the
child's own lines; each parent includes what it inherits itself. A block that occurs several times
is applied only at its last occurrence, which would overwrite the earlier ones anyway. The time to
build a config is therefore linear in the number of its ancestors.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

from asdf.runs.layout import Layout
from asdf.settings.catalogue import Catalogue, our_catalogue
from asdf.settings.config_files import Assignment, Block, parse_assignments, parse_blocks, read_text
from asdf.settings.config_layers import (
    Config,
    Step,
    defaults,
    final_mistakes,
    read_overrides,
    resolve,
    steps_of,
)
from asdf.settings.declared import declared_sections
from asdf.settings.mistakes import (
    COMMAND_LINE,
    Collector,
    Mistake,
    SettingsError,
    nearest,
    raise_all,
    shortened,
)
from asdf.text import AnyPath, count_of

# A circle is reported with at most this many of its names.
_SHOWN = 10


def application_order(name: str, blocks: Mapping[str, Block]) -> list[str]:
    """Return the names of the blocks that form the config `name`, first applied to last.

    Unknown parents are left out.
    """
    # The reverse order visits a block, then its parents from the left, each with its own parents.
    # When a block is met again, all its ancestors have been met as well.
    backwards: dict[str, None] = {}
    stack = [name]
    while stack:
        current = stack.pop()
        if current in backwards or current not in blocks:
            continue
        backwards[current] = None
        # Reversed, since a stack returns the last entry first: the nearest parent is visited next.
        stack += reversed(blocks[current].parents)
    return list(backwards)[::-1]


def inheritance_mistakes(blocks: Mapping[str, Block]) -> list[Mistake]:
    """Return mistakes in the inheritance of blocks: parents that do not exist, and circles."""
    collector = Collector()
    for block in blocks.values():
        # A parent that is named twice is one mistake.
        for parent in dict.fromkeys(block.parents):
            if parent not in blocks:
                child = shortened(block.name)
                collector.add(
                    block.location,
                    f"'{child}' inherits from '{shortened(parent)}', which is not a config",
                    partial(nearest, parent, [name for name in blocks if name != block.name]),
                )
    positions = {name: position for position, name in enumerate(blocks)}
    parents = {name: blocks.keys() & set(blocks[name].parents) for name in blocks}
    while True:
        try:
            TopologicalSorter(parents).prepare()
            return collector.mistakes
        except CycleError as error:
            # From child to parent, without the last name, which repeats the first.
            circle = error.args[1][:0:-1]
        start = circle.index(min(circle, key=positions.__getitem__))
        circle = circle[start:] + circle[:start]
        # Searched on without it, for other circles.
        parents[circle[-1]].discard(circle[0])
        names = [shortened(name, 40) for name in circle[:_SHOWN]]
        if len(circle) > _SHOWN:
            names.append(f"({len(circle) - _SHOWN} more)")
        problem = f"circular inheritance: {' < '.join([*names, names[0]])}"
        collector.add(blocks[circle[0]].location, problem)


# Characters that make a name a pattern; no name of a config has them.
_PATTERN = re.compile(r"[*?\[]")

FilePath = AnyPath
FilePaths = FilePath | Sequence[FilePath]
"""A file of configs, or several, whose configs are in one namespace."""
Configs = tuple[Config, ...]
"""Configs that a command names, in its order, read once and free of mistakes."""


def read_init_config(path: FilePath, folder: Path | None = None) -> Config:
    """Return the defaults with an init_config file applied.

    Args:
        folder: Folder of the user's own modules; None for the folder of the recipe, or of the run,
            that the file belongs to.

    Raises:
        SettingsError: the file is missing or has mistakes.
    """
    assignments, in_text = parse_assignments(read_text(path, "init config"), str(path))
    collector = Collector()
    declared = declared_sections(assignments, folder or modules_folder(path), collector)
    catalogue = our_catalogue().with_sections(declared)
    steps = steps_of(assignments, catalogue, collector)
    raise_all([*in_text, *collector.mistakes])
    return resolve(str(path), [*defaults(catalogue), *steps], catalogue)


def modules_folder(init_config: FilePath) -> Path:
    """Return the folder of the user's modules that a file of settings names.

    The file is `configs/init_config.py` of a recipe, or `settings.py` of a run, which has copies of
    the modules; otherwise the modules lie next to it.
    """
    folder = Path(init_config).absolute().parent
    if folder.name == "configs":
        return folder.parent
    copies = Layout(folder).code
    return copies if copies.is_dir() else folder


def config_paths(paths: FilePaths) -> list[FilePath]:
    """Return the paths of one or more files of configs."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def read_blocks(paths: Iterable[FilePath]) -> tuple[dict[str, Block], list[Mistake]]:
    """Return the blocks of all files by name, in order, and the mistakes in the texts.

    Raises:
        SettingsError: a file is missing or cannot be read.
    """
    blocks: dict[str, Block] = {}
    mistakes: list[Mistake] = []
    for path in paths:
        blocks, in_text = parse_blocks(read_text(path, "run configs"), str(path), blocks)
        mistakes += in_text
    return blocks, mistakes


def read_points(
    initial: Config,
    paths: FilePaths,
    names: Iterable[str],
    points: Sequence[Sequence[str]],
    folder: Path | None = None,
    mistakes: Iterable[Mistake] = (),
) -> tuple[Configs, ...]:
    """Return every named config with the overrides of every point on top.

    Args:
        names: Names of configs, or patterns of names ('base*'), which stand for all matching
            configs in the order of the files that were not named before.
        points: Overrides of each point.
        folder: Folder of the user's own modules, as in `read_init_config`.
        mistakes: Other mistakes of the command, to include in the same message.

    Returns:
        Configs of each name in turn, one per point.

    Raises:
        SettingsError: there are mistakes in the text of the files, in these configs and their
            parents, or in the overrides; all are named. The values of other blocks are not checked.
    """
    # Python would iterate over the characters of a single name, an easy mistake in recipes.
    if isinstance(names, str):
        names = [names]
    collector = Collector()
    collector.mistakes += mistakes
    files = config_paths(paths)
    layers = _Layers(initial, folder or modules_folder(files[0]), collector)
    try:
        blocks, in_text = read_blocks(files)
    # Report mistakes on the command line even if a file cannot be read.
    except SettingsError as error:
        layers.check_overrides(points)
        raise SettingsError([*error.mistakes, *collector.mistakes]) from None
    in_parents = inheritance_mistakes(blocks)
    configs = []
    named: list[str] = []
    where = describe_files(files)
    for name in names:
        matches = [name] if name in blocks else fnmatch.filter(blocks, name)
        if not matches and _PATTERN.search(name):
            collector.add(COMMAND_LINE, f"no config in {where} matches '{shortened(name)}'")
        elif not matches:
            problem = f"there is no config '{shortened(name)}' in {where}"
            collector.add(COMMAND_LINE, problem, partial(nearest, name, blocks))
        for match in matches:
            if match == name or match not in named:
                named.append(match)
                block = blocks[match]
                configs.append(tuple(layers.resolve(block, blocks, point) for point in points))
    if not configs:
        layers.check_overrides(points)
    # A missing parent may be what would resolve a contradiction.
    if not in_parents:
        for config in chain.from_iterable(configs):
            collector.mistakes += final_mistakes(config)
    raise_all([*in_text, *in_parents, *collector.mistakes])
    return tuple(configs)


def describe_files(files: Sequence[FilePath]) -> str:
    """Return the first of the files and how many others there are, in words."""
    others = f" and {count_of(len(files) - 1, 'further file')}" if len(files) > 1 else ""
    return f"{files[0]}{others}"


@dataclass(frozen=True)
class _Layers:
    """The layers below and above the blocks, shared by every config of a command."""

    initial: Config
    folder: Path
    collector: Collector

    def resolve(
        self, block: Block, blocks: Mapping[str, Block], overrides: Sequence[str]
    ) -> Config:
        """Return the config of a block with overrides; its mistakes go to the collector."""
        initial = self.initial
        inherited: list[Assignment] = []
        for name in application_order(block.name, blocks):
            inherited += blocks[name].assignments.values()
        # The set of sections depends on the classes that are named in any layer.
        # The collector is not used: mistakes are reported below, where all sections are known.
        on_top = read_overrides(overrides, initial.catalogue, Collector())
        declared = declared_sections([*inherited, *on_top], self.folder, self.collector)
        catalogue = initial.catalogue.with_sections(declared)
        # init_config may name another class, with other settings in a section of the same name.
        below = []
        for step in initial.log:
            known = catalogue.settings.get(step.setting)
            if known is not None and not (step.location is None and known.section in declared):
                below.append(step)
        log = [
            *defaults(catalogue, declared),
            *below,
            *steps_of(inherited, catalogue, self.collector),
            *self._override_steps(overrides, catalogue),
        ]
        header = f"config {shortened(block.header, 200)} ({block.location})"
        return resolve(header, log, catalogue, block.name)

    def check_overrides(self, points: Iterable[Sequence[str]]) -> None:
        """Report mistakes in overrides for which no config exists."""
        for overrides in points:
            self._override_steps(overrides, self.initial.catalogue)

    def _override_steps(self, overrides: Sequence[str], catalogue: Catalogue) -> list[Step]:
        """Return the layer of the command line."""
        assignments = read_overrides(overrides, catalogue, self.collector)
        return steps_of(assignments, catalogue, self.collector)
