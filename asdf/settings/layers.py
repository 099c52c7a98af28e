"""The values of one config out of its layers: defaults, init_config, inherited blocks, own lines, command line.

Invariant: a log only grows, in the order in which values are applied, and the last step of a setting is its value.
So what a value is and where it comes from can never tell two stories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asdf.settings.blocks import Assignment
from asdf.settings.catalogue import catalogue, look_up
from asdf.settings.checks import check_value
from asdf.settings.environment import expand
from asdf.settings.kinds import takes_string
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import COMMAND_LINE, Collector, Complaint, Mistake, Place, shortened
from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections


@dataclass(frozen=True)
class Step:
    """A value that a layer gave a setting; no place means the default. It is broken if it is not a value at all."""

    setting: str
    value: Any
    place: Place | None = None
    comment: str = ""
    broken: bool = False


Log = Sequence[Step]


@dataclass(frozen=True)
class Resolved:
    """A config with all layers applied.

    `values` holds the value of each setting by its full name, with environment variables expanded; those that could
    not be are as they were written, and in `unset`.
    """

    header: str
    log: Log
    values: Mapping[str, Any]
    unset: Mapping[str, Mistake] = field(default_factory=dict)


def defaults() -> list[Step]:
    """The lowest layer."""
    return [Step(known.full, known.default) for known in catalogue().values()]


def steps_of(assignments: Iterable[Assignment], found: Collector) -> list[Step]:
    """The layer that these assignments make; notes unknown settings and values that do not fit."""
    steps = []
    for assignment in assignments:
        known = found.attempt(lambda: look_up(assignment.target), assignment.place)  # noqa: B023 - runs at once
        if known is None:
            continue
        value, broken = assignment.value, assignment.broken
        if not broken:
            try:
                value = check_value(known, value)
            except Complaint as complaint:
                found.mistakes.append(
                    complaint.at(assignment.place, f"{known.full} = {shortened(assignment.text)}")
                )
                broken = True
        steps.append(Step(known.full, value, assignment.place, assignment.comment, broken))
    return steps


def override_steps(overrides: Iterable[str], found: Collector) -> list[Step]:
    """The layer of the command line's `section.name=value`; notes a setting that gets two values.

    A command with two values for one setting may well be meant as two runs, so that neither value is taken.
    """
    assignments: dict[str, Assignment] = {}
    for text in overrides:
        read = _override(text, found)
        if read is None:
            continue
        earlier = assignments.setdefault(read.target, read)
        if earlier.text != read.text:
            found.add(COMMAND_LINE, _contradiction(earlier, read))
    return steps_of(assignments.values(), found)


def _contradiction(earlier: Assignment, later: Assignment) -> str:
    return (
        f"{shortened(later.target)} is set to {shortened(earlier.text, 30)} and to {shortened(later.text, 30)}: leave "
        "one of them out; for a run with each write a config for each"
    )


def _override(override: str, found: Collector) -> Assignment | None:
    target, equals, text = (part.strip() for part in override.partition("="))
    if not equals:
        found.add(
            COMMAND_LINE, f"'{shortened(override)}' is no override of the form section.name=value"
        )
        return None
    known = catalogue().get(target)
    try:
        return Assignment(target, parse_literal(text), text, COMMAND_LINE)
    except Complaint as complaint:
        # `paths.output_folder=/scratch/x`: the shell has eaten the quotes, or the user never thought of them.
        if (
            known is not None
            and takes_string(known.annotation)
            and text
            and text[0] not in "'\"([{"
        ):
            return Assignment(target, text, text, COMMAND_LINE)
        # Of an unknown setting nobody can say whether it takes a bare string.
        if known is not None:
            found.mistakes.append(complaint.at(COMMAND_LINE, f"{target} = {shortened(text)}"))
        return Assignment(target, None, text, COMMAND_LINE, broken=True)


def resolve(header: str, log: Log) -> Resolved:
    """Apply the steps of a log."""
    latest = {step.setting: step for step in log}
    values = {setting: step.value for setting, step in latest.items()}
    unset = {}
    for known in catalogue().values():
        step = latest[known.full]
        if (
            known.metadata["each"] == "path"
            and isinstance(step.value, str | tuple)
            and not step.broken
        ):
            try:
                paths = step.value
                values[known.full] = (
                    expand(paths) if isinstance(paths, str) else tuple(map(expand, paths))
                )
            except Complaint as complaint:
                unset[known.full] = complaint.at(
                    step.place or Place("default"), f"{known.full} = {shortened(repr(step.value))}"
                )
    return Resolved(header, log, values, unset)


def final_mistakes(config: Resolved) -> list[Mistake]:
    """What is wrong with the values that a config ends up with: unset variables and contradictions."""
    latest = {step.setting: step for step in config.log}
    mistakes = list(config.unset.values())
    sound = {name: value for name, value in config.values.items() if not latest[name].broken}
    for low, high, relation in contradictions(to_sections(sound)):
        if not latest[low].broken and not latest[high].broken:
            places = [
                step.place for step in config.log if step.setting in (low, high) and step.place
            ]
            told = [
                f"{name} = {shortened(repr(sound[name]))} ({latest[name].place or 'default'})"
                for name in (low, high)
            ]
            mistakes.append(
                Mistake(
                    places[-1] if places else Place("default"), f"{told[0]} {relation} {told[1]}"
                )
            )
    return mistakes


def to_sections(values: Mapping[str, Any]) -> Sections:
    """The dataclasses that hold these values, and the defaults for what is not among them."""
    sections = Sections()
    for name, value in values.items():
        section, _, setting = name.partition(".")
        setattr(getattr(sections, section), setting, value)
    return sections
