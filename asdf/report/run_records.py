"""What each run recorded: its starts and machines, its settings, and its training.

Invariant: everything that a run recorded is shown. A record may be of any version, or malformed:
missing entries are empty, and entries of an unexpected type are left out. Settings at their default
are collapsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from asdf.report.drawing import Record, is_finite_number, training_figure
from asdf.report.gathering import Gathered
from asdf.runs.evaluations import Evaluation, metrics_evaluations
from asdf.tables.renderers import as_page
from asdf.tables.table import Column, Columns, Table, Value, counts, each, rate, texts
from asdf.text import count_of
from asdf.trials.how_scored import in_precision
from asdf.trials.run_folder import RunFolder

# More runs are counted and folded: those that ended alike, and their last starts.
_FEW_RUNS = 3
_COMMIT_DIGITS = 9
_DAY_CHARACTERS = len("2026-01-02")


def when_and_how(runs: Sequence[RunFolder]) -> str:
    """Return the date, ASDF version and machine of the runs' last starts."""
    records = [starts[-1] for starts in map(RunFolder.environments, runs) if starts]
    if not records:
        return "The runs saved no record of when and where they were measured."
    # The day is enough here: the time of each start is shown further down.
    days = [_text(record.get("started"))[:_DAY_CHARACTERS] for record in records]
    versions = [_mapping(record.get("versions")).get("asdf-antispoofing") for record in records]
    # Days in ISO 8601 sort as text.
    ordered = sorted(filter(None, days))
    parts = [" to ".join(dict.fromkeys(ordered[:1] + ordered[-1:]))]  # a single day once
    for word, values in (
        ("ASDF", versions),
        ("commit", [_commit(record, is_short=True) for record in records]),
        ("host", [record.get("host") for record in records]),
    ):
        if known := dict.fromkeys(map(str, filter(None, values))):
            parts.append(f"{word} {', '.join(known)}")
    return " · ".join(filter(None, parts))


def counts_of(gathered: Gathered) -> str:
    """Return the number of trials of each set: 'dev 40 + 60 trials (bona fide + spoof)'."""
    parts = []
    for set_name in gathered.sets:
        results = each(gathered.on(set_name), "summary.result")
        sizes = sorted({(result.bona_fide, result.spoof) for result in results})
        # A finding also states that systems were scored on different trials.
        texts = " or ".join(f"{bona_fide:,} + {spoof:,}" for bona_fide, spoof in sizes)
        parts.append(f"{set_name} {texts}")
    if not parts:
        return ""
    systems = count_of(len(gathered.systems), "system")
    return f"{systems} · trials, bona fide + spoof: {'; '.join(parts)}"


def run_environments(gathered: Gathered) -> list[dict[str, Any]]:
    """Return the environment of each start of each run, oldest first."""
    is_open = len(gathered.runs) <= _FEW_RUNS
    environments = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        starts = list(map(read_start, run.environments()))
        for start in starts:
            start["is_open"] = is_open and start is starts[-1]
        environments.append({"name": name, "starts": starts})
    return environments


def read_start(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment of one start; '' for entries that were not recorded."""
    # A package whose version is null was not installed.
    packages = _mapping(record.get("versions")).items()
    versions = [f"{package} {version}" for package, version in packages if version]
    variables = _mapping(record.get("environment"))
    hosts = [_text(record.get("host")), _text(record.get("platform"))]
    return {
        "started": _text(record.get("started")).replace("T", " "),
        "command": _text(record.get("command")),
        "folder": _text(record.get("working_directory")),
        "commit": _commit(record),
        "changed_files": ", ".join(map(str.strip, _changed_files(record))),
        "versions": ", ".join([f"Python {_text(record.get('python'))}", *versions]),
        "host": " · ".join(filter(None, hosts)),
        "devices": _texts(record.get("devices")),
        "variables": " ".join(f"{name}={value}" for name, value in variables.items()),
    }


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


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def settings_of_runs(gathered: Gathered) -> list[dict[str, Any]]:
    """Return the settings of each run: the changed ones, and those at their default."""
    runs = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        groups: dict[str, list[dict[str, Any]]] = {"changed": [], "defaults": []}
        for key, setting in run.settings().items():
            is_default = setting.source.partition(",")[0] == "default"
            # The parts of a source are not broken.
            shown = {"text": setting.text, "source_parts": setting.source.split(" ")}
            group = groups["defaults" if is_default else "changed"]
            group.append({"name_parts": _name_parts(key), **shown})
        runs.append({"name": name, **groups})
    return runs


def setting_differences(gathered: Gathered) -> dict[str, Any] | None:
    """Return the settings in which the runs differ; None for a single run."""
    if len(gathered.runs) < 2:
        return None
    by_run = list(map(RunFolder.settings, gathered.runs))
    rows = []
    for name in dict.fromkeys(chain.from_iterable(by_run)):
        # None stands for a run of a version that does not have the setting.
        row = [settings.get(name) for settings in by_run]
        # A missing setting differs from every value, including None.
        texts = [setting.text for setting in row if setting]
        if len(set(texts)) > 1 or len(texts) < len(row):
            rows.append({"name_parts": _name_parts(name), "settings": row})
    return {"runs": gathered.names, "rows": rows}


def _name_parts(name: str) -> list[str]:
    """Split a name after its dots and underscores."""
    return re.split(r"(?<=[._])", name)


def training_section(gathered: Gathered) -> dict[str, Any] | None:
    """Return the courses and ends of the trainings; None if no run recorded one."""
    records = list(map(RunFolder.training, gathered.runs))
    if not any(records):
        return None
    groups: dict[str, list[str]] = {}
    run_names = []
    evaluations = []
    for name, run, training in zip(gathered.names, gathered.runs, records, strict=True):
        groups.setdefault(describe_end(training), []).append(name)
        # Evaluations are marked if they have become stale since.
        stale = {known.step: known.stale for known in run.evaluations()}
        for known in metrics_evaluations(training):
            run_names.append(name)
            evaluations.append(replace(known, stale=stale.get(known.step, ())))
    columns: Columns = [
        texts("Network", list(map(str, each(evaluations, "network")))),
        Column("epoch", "Epoch", is_count=True).with_values(each(evaluations, "epoch")),
        counts("Step", each(evaluations, "step")),
        *result_columns(evaluations),
    ]
    table = as_page(Table(run_names, columns, "Run"), "Evaluations during training")
    ends = [
        {"reason": reason, "names": names, "is_folded": len(names) > _FEW_RUNS}
        for reason, names in groups.items()
    ]
    return {"ends": ends, "plot": training_figure(gathered), "evaluations": table}


def describe_end(training: Sequence[Record]) -> str:
    """Return 'ended after 4 epochs (network.max_epochs)' for 'network.max_epochs = 4'."""
    ends = [record for record in training if record.get("kind") == "end"]
    if not ends:
        return "still running, or killed"
    # A run that was started again has an end for each start.
    reason = str(ends[-1].get("reason") or "")
    limit = re.fullmatch(r"(network\.max_(epoch|step)s) = (\d+)", reason)
    if limit is None:
        return f"ended: {reason}"
    setting, unit, digits = limit.groups()
    return f"ended after {count_of(int(digits), unit)} ({setting})"


def result_columns(evaluations: Sequence[Evaluation]) -> Columns:
    """Return EERs, values of other selection metrics, and losses, by set."""
    columns: Columns = []
    for set_name in dict.fromkeys(chain.from_iterable(each(evaluations, "eers"))):
        values = []
        for known in evaluations:
            is_stale = set_name in known.stale
            remark = ", of recordings that were replaced since" if is_stale else ""
            values.append(_value(known.eers.get(set_name), remark))
        columns.append((rate("eer", f"{set_name} EER", states_unit=True), values))
    chosen = [known for known in evaluations if known.chosen_by is not None]
    others = {(known.metric, name): None for known in chosen for name in known.values(known.metric)}
    for metric, set_name in others:
        values = [_value(known.values(metric).get(set_name)) for known in evaluations]
        columns.append((Column(metric, f"{set_name} {metric}"), values))
    for set_name in dict.fromkeys(chain.from_iterable(each(evaluations, "losses"))):
        values = [_value(known.losses.get(set_name)) for known in evaluations]
        columns.append((Column("loss", f"{set_name} loss"), values))
    precisions = each(evaluations, "scoring_precision")
    if any(map(in_precision, precisions)):
        columns.append(Column("precision", "Scored in").with_texts(precisions))
    return columns


def _value(number: float | None, remark: str = "") -> Value:
    """Return a number of a record as a value; not every network has one on every set."""
    return Value(number if is_finite_number(number) else None, remark=remark)
