"""From the files and the command line to configs that are ready to be applied.

Invariant: all mistakes are found before anything is returned, and a file is read only once, so that what is edited
while a run goes on reaches none of its configs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from asdf.settings.blocks import parse_assignments, parse_blocks
from asdf.settings.inheritance import application_order, inheritance_mistakes
from asdf.settings.layers import (
    Resolved,
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


def read_init_config(path: FilePath) -> Resolved:
    """The defaults with an init_config file applied.

    Raises:
        SettingsError: the file is missing or has mistakes in it.
    """
    assignments, in_text = parse_assignments(read_text(path, "init config"), str(path))
    found = Collector()
    steps = steps_of(assignments, found)
    raise_all([*in_text, *found.mistakes])
    return resolve(str(path), [*defaults(), *steps])


def read_run_configs(
    initial: Resolved, path: FilePath, names: Iterable[str], overrides: Iterable[str]
) -> list[Resolved]:
    """The named configs of a run_configs file, applied onto `initial`, with the overrides on top of each.

    Raises:
        SettingsError: names every mistake in the text of the file, in these configs and what they inherit, and in
            the overrides. Whether values fit is not asked of blocks that are not needed.
    """
    names = [names] if isinstance(names, str) else list(names)
    found = Collector()
    on_top = override_steps(overrides, found)
    try:
        blocks, in_text = parse_blocks(read_text(path, "run configs"), str(path))
    except SettingsError as error:
        raise SettingsError([*error.mistakes, *found.mistakes]) from None
    in_parents = inheritance_mistakes(blocks)
    configs = []
    for name in names:
        if name not in blocks:
            found.add(
                COMMAND_LINE,
                f"there is no config '{shortened(name)}' in {path}",
                partial(nearest, name, blocks),
            )
            continue
        log = [*initial.log]
        for part in application_order(name, blocks):
            log += steps_of(blocks[part].assignments.values(), found)
        header = shortened(blocks[name].header, 200)
        configs.append(resolve(f"config {header} ({blocks[name].place})", [*log, *on_top]))
    # A parent that is missing may be what settles a contradiction.
    if not in_parents:
        for config in configs:
            found.mistakes += final_mistakes(config)
    raise_all([*in_text, *in_parents, *found.mistakes])
    return configs
