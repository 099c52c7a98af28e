"""From the files and the command line to configs that are ready to be applied.

Invariant: all mistakes are found before anything is returned, and a command reads each file once,
so that what is edited while a run goes on reaches none of its configs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial

from asdf.settings.blocks import Block, parse_assignments, parse_blocks
from asdf.settings.inheritance import application_order, inheritance_mistakes
from asdf.settings.layers import (
    Config,
    Log,
    defaults,
    final_mistakes,
    override_steps,
    resolve,
    steps_of,
)
from asdf.settings.lines import read_text
from asdf.settings.mistakes import (
    COMMAND_LINE,
    Collector,
    SettingsError,
    nearest,
    raise_all,
    shortened,
)

FilePath = str | os.PathLike[str]
Configs = tuple[Config, ...]
"""The configs that a command names, in its order: read once and free of mistakes."""


def read_init_config(path: FilePath) -> Config:
    """Return the defaults with an init_config file applied.

    Raises:
        SettingsError: the file is missing or has mistakes in it.
    """
    assignments, in_text = parse_assignments(read_text(path, "init config"), str(path))
    collector = Collector()
    steps = steps_of(assignments, collector)
    raise_all([*in_text, *collector.mistakes])
    return resolve(str(path), [*defaults(), *steps])


def read_run_configs(
    initial: Config, path: FilePath, names: Iterable[str], overrides: Iterable[str]
) -> Configs:
    """Return the named configs of a run_configs file, applied onto `initial`, overrides last.

    Raises:
        SettingsError: names every mistake in the text of the file, in these configs and what they
            inherit, and in the overrides. The values of other blocks are not checked.
    """
    # A single name is a list of characters to Python: a trap for those who write recipes.
    if isinstance(names, str):
        names = [names]
    collector = Collector()
    on_top = override_steps(overrides, collector)
    try:
        blocks, in_text = parse_blocks(read_text(path, "run configs"), str(path))
    # Mistakes on the command line are reported even if there is no file to read.
    except SettingsError as error:
        raise SettingsError([*error.mistakes, *collector.mistakes]) from None
    in_parents = inheritance_mistakes(blocks)
    configs = []
    for name in names:
        if name in blocks:
            log = [*initial.log, *_inherited_steps(name, blocks, collector), *on_top]
            configs.append(resolve(_header(blocks[name]), log, name))
        else:
            problem = f"there is no config '{shortened(name)}' in {path}"
            collector.add(COMMAND_LINE, problem, partial(nearest, name, blocks))
    # A parent that is missing may be what settles a contradiction.
    if not in_parents:
        for config in configs:
            collector.mistakes += final_mistakes(config)
    raise_all([*in_text, *in_parents, *collector.mistakes])
    return tuple(configs)


def _inherited_steps(name: str, blocks: Mapping[str, Block], collector: Collector) -> Log:
    """Return the steps of a block and of all that it inherits from, in the order of application."""
    steps = []
    for part in application_order(name, blocks):
        steps += steps_of(blocks[part].assignments.values(), collector)
    return steps


def _header(block: Block) -> str:
    return f"config {shortened(block.header, 200)} ({block.location})"
