"""Where each value comes from, in words: `--explain`, the account of a config, the saved snapshot.

Invariant: everything here is read off the log of a resolved config; the last step shown is the value in force.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdf.settings.catalogue import Known, catalogue, look_up_part
from asdf.settings.kinds import describe
from asdf.settings.layers import Config, Step
from asdf.settings.mistakes import COMMAND_LINE, Complaint, SettingsError, shortened

WIDEST = 60


def explain(config: Config, what: str) -> str:
    """What `run.py CONFIG --explain what` prints: one setting with its history, a section, or all (empty `what`).

    Raises:
        SettingsError: there is no such setting or section.
    """
    try:
        settings = look_up_part(what)
    except Complaint as complaint:
        raise SettingsError([complaint.at(COMMAND_LINE, f"--explain {shortened(what)}")]) from None
    if len(settings) == 1:
        return _history(config, settings[0])
    return _table(config, [known.full for known in settings])


def account(config: Config) -> str:
    """The settings of a config that any layer has set, and where; the rest have their defaults."""
    named = {step.setting for step in config.log if step.location is not None}
    settings = [name for name in catalogue() if name in named]
    rest = len(catalogue()) - len(settings)
    lines = [config.header, *_table(config, settings).splitlines()]
    return "\n  ".join([*lines, f"{rest} other settings have their defaults"])


def render_snapshot(config: Config) -> str:
    """The values of all settings as an init_config text, each with where it came from behind it."""
    lines = [
        f"# Settings of {_one_line(config.header)}: a full init_config.py, with the source of each "
        "value."
    ]
    section = ""
    for name, known in catalogue().items():
        if known.section != section:
            section = known.section
            lines.append("")
        *overridden, final = _chain(config, name)
        text = f"{name} = {config.values[name]!r}  # {_source(final)}"
        if overridden:
            text += ", over " + ", ".join(
                f"{step.value!r} ({_source(step)})" for step in reversed(overridden)
            )
        lines.append(_one_line(text))
    return "\n".join(lines) + "\n"


def _history(config: Config, known: Known) -> str:
    steps = _chain(config, known.full)
    sources = [_source(step, short=False) for step in steps]
    width = max(map(len, sources))
    lines = [
        f"{known.full} = {config.values[known.full]!r}",
        f"  {known.metadata['meaning']} ({_kind(known)})",
    ]
    for source, step in zip(sources, steps, strict=True):
        comment = f"  # {step.comment}" if step.comment else ""
        lines.append(f"  {source:<{width}}  {step.value!r}{comment}")
    if known.full in config.unset:
        lines.append(f"  {config.unset[known.full].text}")
    return "\n".join(lines)


def _kind(known: Known) -> str:
    parts = [describe(known.annotation)]
    for word in ("at_least", "above", "at_most"):
        if known.metadata[word] is not None:
            parts.append(f"{word.replace('_', ' ')} {known.metadata[word]:,}")
    if known.metadata["unit"]:
        parts.append(f"unit: {known.metadata['unit']}")
    return ", ".join(parts)


def _table(config: Config, settings: Iterable[str]) -> str:
    rows = [
        (f"{name} = {config.values[name]!r}", _source(_chain(config, name)[-1]))
        for name in settings
    ]
    width = max((len(left) for left, _ in rows if len(left) <= WIDEST), default=0)
    return "\n".join(f"{left:<{width}}  {source}" for left, source in rows)


def _chain(config: Config, name: str) -> list[Step]:
    return [step for step in config.log if step.setting == name]


def _source(step: Step, *, short: bool = True) -> str:
    return step.location.with_block(short=short) if step.location is not None else "default"


def _one_line(text: str) -> str:
    """`text` as it can stand in a comment: the name of a file may hold line ends and bytes that are no text."""
    return " ".join(text.splitlines()).encode("utf-8", "backslashreplace").decode()
