"""Settings in words: `--explain`, `--list`, the snapshot of a run, docs/settings.md.

Invariant: every statement on a value's origin is read from the log of a config, whose last step is
in force.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from asdf.errors import UsageError
from asdf.settings.catalogue import describe_names, our_catalogue, section_types
from asdf.settings.config_files import Block
from asdf.settings.config_layers import Config, Step
from asdf.settings.literals import ASSIGNMENT_LINE
from asdf.settings.loading import (
    FilePaths,
    config_paths,
    describe_files,
    inheritance_mistakes,
    read_blocks,
)
from asdf.settings.mistakes import COMMAND_LINE, Complaint, SettingsError, raise_all, shortened
from asdf.settings.sections import OF_EXTRAS
from asdf.settings.value_checks import describe
from asdf.text import count_of, did_you_mean

# Settings wider than this are not aligned, which would move all others too far right.
_MAX_WIDTH = 60


def explain(config: Config, what: str) -> str:
    """Return the text of `run.py CONFIG --explain what`.

    Args:
        what: Setting to show with its history, section, or '' for all settings.

    Raises:
        SettingsError: the setting or section does not exist.
    """
    try:
        settings = config.catalogue.part(what)
    except Complaint as complaint:
        raise SettingsError([complaint.at(COMMAND_LINE, f"--explain {shortened(what)}")]) from None
    # For a section, the table shows only the last step of each setting.
    if len(settings) > 1:
        return _table(config, [known.full for known in settings])
    (known,) = settings
    metadata = known.metadata
    kinds = [describe_names(known) if metadata["names"] else describe(known.annotation)]
    bounds = {name: metadata[name] for name in ("at_least", "above", "at_most")}
    for bound, number in bounds.items():
        if number is not None:
            kinds.append(f"{bound.replace('_', ' ')} {number:,}")
    if metadata["unit"]:
        kinds.append(f"unit: {metadata['unit']}")
    lines = [
        f"{known.full} = {config.values[known.full]!r}",
        f"  {known.meaning} ({', '.join(kinds)})",
    ]
    steps = _steps_of(config, known.full)
    sources = [_source(step, short=False) for step in steps]
    width = max(map(len, sources))
    for source, step in zip(sources, steps, strict=True):
        comment = f"  # {step.comment}" if step.comment else ""
        lines.append(f"  {source:<{width}}  {step.value!r}{comment}")
    if known.full in config.unset:
        lines.append(f"  {config.unset[known.full].text}")
    return "\n".join(lines)


def account(config: Config) -> str:
    """Return the settings that a config and its layers set, and where; others keep defaults."""
    # Defaults are also steps, but without a location.
    assigned = {step.setting for step in config.log if step.location is not None}
    catalogue = config.catalogue.settings
    names = [name for name in catalogue if name in assigned]
    rest = len(catalogue) - len(names)
    lines = [config.header, *_table(config, names).splitlines()]
    lines.append(f"{rest} other settings have their defaults")
    return "\n  ".join(lines)


def render_snapshot(config: Config) -> str:
    """Return all settings as the text of an init_config, each with its origin."""
    header = _one_line(config.header)
    lines = [f"# Settings of {header}: a full init_config.py, with the source of each value."]
    section = ""
    for name, known in config.catalogue.settings.items():
        if known.section != section:
            section = known.section
            lines.append("")
        # Every setting has at least one step, its default.
        *overridden, final = _steps_of(config, name)
        # Write the expanded value, since a variable may differ where the file is read again.
        text = f"{name} = {config.values[name]!r}  # {_source(final)}"
        if overridden:
            earlier = [f"{step.value!r} ({_source(step)})" for step in reversed(overridden)]
            text += f", over {', '.join(earlier)}"
        lines.append(_one_line(text))
    return "\n".join(lines) + "\n"


def _table(config: Config, names: Iterable[str]) -> str:
    sources = {}
    for name in names:
        final = _steps_of(config, name)[-1]
        sources[f"{name} = {config.values[name]!r}"] = _source(final)
    widths = [len(setting) for setting in sources if len(setting) <= _MAX_WIDTH]
    width = max(widths, default=0)
    return "\n".join(f"{setting:<{width}}  {source}" for setting, source in sources.items())


def _steps_of(config: Config, name: str) -> list[Step]:
    return [step for step in config.log if step.setting == name]


def _source(step: Step, *, short: bool = True) -> str:
    if step.location is None:
        return "default"
    return step.location.with_block(short=short)


def _one_line(text: str) -> str:
    """Return `text` in a form fit for a comment, since a file name may hold any bytes."""
    return " ".join(text.splitlines()).encode("utf-8", "backslashreplace").decode()


WIDTH = 80
# Deeper configs of a long chain are not indented further.
_DEEPEST = 8
_STEP = "  "
_HEAD = ("| setting | default | meaning |", "|---|---|---|")


def list_configs(run_configs: FilePaths, names: Collection[str] = ()) -> str:
    """Return the configs of a file as a tree, each below its nearest parent, with what it is for.

    Of further files, only the folder of the recipe or collection that they are in is listed; given
    in `names`, such a folder has its own tree.

    A config has lines of at most 80 columns, with the first sentence of its description: of the
    comments before its settings. One of `names` has all of its description; an indented comment,
    such as a command, stays on a line of its own.

    Raises:
        SettingsError: a file is missing or has mistakes.
        UsageError: there is no config or folder of a name.
    """
    files = config_paths(run_configs)
    blocks, in_text = read_blocks(files)
    raise_all([*in_text, *inheritance_mistakes(blocks)])
    # `FOLDER/configs/NAME.py`: the folder is that of a recipe, or of a collection of configs.
    folders = {str(file): Path(file).absolute().parent.parent.name for file in files}
    collections: dict[str, dict[str, Block]] = {}
    for name, block in blocks.items():
        collections.setdefault(folders[block.location.file], {})[name] = block
    lines: list[str] = []
    for name in names:
        if name in blocks:
            lines += _wrap(blocks[name].header, "")
            for paragraph in _paragraphs(blocks[name].comments):
                lines += _wrap(paragraph, 2 * _STEP)
        elif name in collections:
            lines += _tree(collections[name])
        else:
            nearest = did_you_mean(name, [*blocks, *collections])
            raise UsageError(f"no config '{name}' in {describe_files(files)}.{nearest}")
    if not names:
        lines += _tree(collections.pop(folders[str(files[0])], {}))
        for folder, listed in collections.items():
            lines.append(f"{count_of(len(listed), 'config')} in {folder}: --list {folder}")
    return "\n".join(lines)


def _tree(blocks: Mapping[str, Block]) -> list[str]:
    """Return the lines of configs, each below its nearest parent that is one of `blocks`."""
    lines = []
    children: dict[str, list[Block]] = {}
    for block in blocks.values():
        # A tree has one parent per entry: the nearest one, which determines most settings.
        parent = block.parents[0] if block.parents and block.parents[0] in blocks else ""
        children.setdefault(parent, []).append(block)
    # Use a stack, since a chain of configs may exceed Python's recursion limit.
    stack = [(0, block) for block in reversed(children.get("", []))]
    while stack:
        depth, block = stack.pop()
        described = _paragraphs(block.comments)
        about = re.split(r"(?<=[\w)'])\.(?= |$)", described[0].strip())[0] if described else ""
        indent = _STEP * min(depth, _DEEPEST)
        line = f"{indent}{block.header}  {about}"
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=f"{indent}{2 * _STEP}")
        for child in reversed(children.get(block.name, [])):
            stack.append((depth + 1, child))
    return lines


def _paragraphs(comments: Iterable[str]) -> list[str]:
    """Join consecutive lines into paragraphs; an indented line is a paragraph of its own."""
    paragraphs: list[str] = []
    goes_on = False
    for comment in comments:
        # A commented-out setting does not describe the config.
        if not comment or ASSIGNMENT_LINE.match(comment):
            goes_on = False
            continue
        is_indented = comment.startswith((" ", "\t"))
        if goes_on and not is_indented:
            paragraphs[-1] += f" {comment}"
        else:
            paragraphs.append(comment.expandtabs(4))
        goes_on = not is_indented
    return paragraphs


def _wrap(text: str, indent: str) -> list[str]:
    bare = text.strip()
    further = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        bare,
        WIDTH,
        initial_indent=indent + further,
        subsequent_indent=indent + further + _STEP * bool(further),
        # Keep names of configs and options such as --dry-run whole, for copying.
        break_on_hyphens=False,
    )


def markdown_tables(of_networks: bool = False) -> str:
    """Return a heading and a table per section: setting, default with unit, meaning.

    Args:
        of_networks: Whether the tables are of the sizes of back ends and of front ends' sections in
            extras; otherwise of all other settings.
    """
    parts: list[str] = []
    for section, kind in section_types().items():
        rows = []
        for known in our_catalogue().part(section):
            is_size = section == "back_end" and known.name != "back_end_class"
            if of_networks == (is_size or section in OF_EXTRAS):
                default = f"`{known.default!r}` {known.metadata['unit']}".rstrip()
                meaning = known.meaning
                if known.metadata["names"]:
                    meaning += f": {describe_names(known)}"
                # A bar would end the cell.
                cells = [cell.replace("|", r"\|") for cell in (known.full, default, meaning)]
                rows.append(f"| `{cells[0]}` | {cells[1]} | {cells[2]} |")
        if rows:
            about = str(kind.__doc__).partition("\n")[0]
            parts += [f"##{'#' * of_networks} `{section}`", "", about, "", *_HEAD, *rows, ""]
    return "\n".join(parts)
