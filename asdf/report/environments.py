"""Date, machine and versions of each start of the runs.

Invariant: everything that a run recorded is shown. A record may be of any version, or malformed:
missing entries are empty, and entries of an unexpected type are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asdf.report.gathering import Gathered
from asdf.text import count_of
from asdf.trials.run_folder import RunFolder

# Maximum number of runs whose last start is expanded.
_FEW_RUNS = 3
_COMMIT_DIGITS = 9
_DAY_CHARACTERS = len("2026-01-02")


@dataclass(frozen=True)
class Start:
    """The environment of one start of a run; '' for entries that were not recorded."""

    started: str
    command: str
    folder: str
    commit: str
    changed_files: str
    versions: str
    host: str
    devices: list[str]
    variables: str
    is_open: bool


@dataclass(frozen=True)
class RunEnvironment:
    """The starts of a run, oldest first."""

    name: str
    starts: list[Start]


def when_and_how(runs: Sequence[RunFolder]) -> str:
    """Return the date, ASDF version and machine of the runs' last starts."""
    records = []
    for run in runs:
        starts = run.environments()
        if starts:
            records.append(starts[-1])
    if not records:
        return "The runs saved no record of when and where they were measured."
    days = []
    versions = []
    hosts = []
    for record in records:
        # The day is enough here: the time of each start is shown further down.
        days.append(_text(record.get("started"))[:_DAY_CHARACTERS])
        versions.append(_mapping(record.get("versions")).get("asdf-antispoofing"))
        hosts.append(record.get("host"))
    # Days in ISO 8601 sort as text.
    ordered = sorted(filter(None, days))
    parts = [
        " to ".join(dict.fromkeys(ordered[:1] + ordered[-1:])),  # a single day is shown once
        _prefixed("ASDF", versions),
        _prefixed("commit", [_commit(record, is_short=True) for record in records]),
        _prefixed("host", hosts),
    ]
    return " · ".join(filter(None, parts))


def counts_of(gathered: Gathered) -> str:
    """Return the number of trials of each set: 'dev 40 + 60 trials (bona fide + spoof)'."""
    parts = []
    for set_name in gathered.sets:
        sizes = set()
        for measured in gathered.on(set_name):
            result = measured.summary.result
            sizes.add((result.bona_fide, result.spoof))
        # A finding also states that systems were scored on different trials.
        texts = " or ".join(f"{bona_fide:,} + {spoof:,}" for bona_fide, spoof in sorted(sizes))
        parts.append(f"{set_name} {texts}")
    if not parts:
        return ""
    systems = count_of(len(gathered.systems), "system")
    return f"{systems} · trials, bona fide + spoof: {'; '.join(parts)}"


def run_environments(gathered: Gathered) -> list[RunEnvironment]:
    """Return the environment of each start of each run."""
    is_open = len(gathered.runs) <= _FEW_RUNS
    environments = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        records = run.environments()
        last = len(records) - 1
        starts = []
        for index, record in enumerate(records):
            starts.append(_read_start(record, is_open=is_open and index == last))
        environments.append(RunEnvironment(name, starts))
    return environments


def _read_start(record: Mapping[str, Any], *, is_open: bool) -> Start:
    # A package whose version is null was not installed.
    versions = [f"Python {_text(record.get('python'))}"]
    for package, version in _mapping(record.get("versions")).items():
        if version:
            versions.append(f"{package} {version}")
    variables = _mapping(record.get("environment"))
    hosts = [_text(record.get("host")), _text(record.get("platform"))]
    return Start(
        started=_text(record.get("started")).replace("T", " "),
        command=_text(record.get("command")),
        folder=_text(record.get("working_directory")),
        commit=_commit(record),
        changed_files=", ".join(map(str.strip, _changed_files(record))),
        versions=", ".join(versions),
        host=" · ".join(filter(None, hosts)),
        devices=_texts(record.get("devices")),
        variables=" ".join(f"{name}={value}" for name, value in variables.items()),
        is_open=is_open,
    )


def _commit(record: Mapping[str, Any], *, is_short: bool = False) -> str:
    """Return the commit, the number of changed files, and the branch unless it is to be short."""
    git = _mapping(record.get("git"))
    commit = _text(git.get("commit"))
    changed = len(_changed_files(record))
    if not commit:
        return ""
    if is_short:
        commit = commit[:_COMMIT_DIGITS]
    elif git.get("branch"):
        commit += f" on {git['branch']}"
    return f"{commit} with {count_of(changed, 'changed file')}" if changed else commit


def _changed_files(record: Mapping[str, Any]) -> list[str]:
    return _texts(_mapping(record.get("git")).get("changed"))


def _prefixed(word: str, values: Iterable[Any]) -> str:
    """Return the word followed by the distinct values; '' if all are empty."""
    texts = dict.fromkeys(map(str, filter(None, values)))
    if not texts:
        return ""
    return f"{word} {', '.join(texts)}"


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {}


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return list(map(str, value))
    return []


def _text(value: Any) -> str:
    return "" if value is None else str(value)
