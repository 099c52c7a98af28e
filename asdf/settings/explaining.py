"""The origin of each value in words: `--explain`, the summary of a config, the saved snapshot.

Invariant: every statement is read from the log of a config, whose last step is in force.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdf.settings.catalogue import Known, describe_names
from asdf.settings.config_layers import Config, Step
from asdf.settings.mistakes import COMMAND_LINE, Complaint, SettingsError, shortened
from asdf.settings.value_checks import describe

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
    if len(settings) == 1:
        return _history(config, settings[0])
    return _table(config, [known.full for known in settings])


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


def _history(config: Config, known: Known) -> str:
    steps = _steps_of(config, known.full)
    sources = [_source(step, short=False) for step in steps]
    width = max(map(len, sources))
    lines = [
        f"{known.full} = {config.values[known.full]!r}",
        f"  {known.metadata['meaning']} ({_describe_kind(known)})",
    ]
    for source, step in zip(sources, steps, strict=True):
        comment = f"  # {step.comment}" if step.comment else ""
        lines.append(f"  {source:<{width}}  {step.value!r}{comment}")
    if known.full in config.unset:
        lines.append(f"  {config.unset[known.full].text}")
    return "\n".join(lines)


def _describe_kind(known: Known) -> str:
    parts = [describe(known.annotation)]
    if known.metadata["names"]:
        parts = [describe_names(known)]
    for bound in ("at_least", "above", "at_most"):
        number = known.metadata[bound]
        if number is not None:
            parts.append(f"{bound.replace('_', ' ')} {number:,}")
    if known.metadata["unit"]:
        parts.append(f"unit: {known.metadata['unit']}")
    return ", ".join(parts)


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
