"""The runs as HTML: how they were trained, their settings with where each came from, what they ran on.

Invariant: nothing that a run recorded is left out; what is the same everywhere, or is a default, is folded away.
"""

from __future__ import annotations

import re
from typing import Any

from asdf.report.gathering import Gathered
from asdf.report.markup import Cell, Content, Html, join, markup, table, tag
from asdf.trials.how_scored import in_precision
from asdf.trials.run_folder import KeptSetting, RunFolder

_FEW = 3
"""More runs than this are counted, and named where the reader asks for it."""


def when_and_how(runs: list[RunFolder]) -> str:
    """When the runs were last started, by which version of ASDF, where."""
    records = [environments[-1] for run in runs if (environments := run.environments())]
    if not records:
        return "The runs kept no record of when and where they were measured."
    days = sorted({_text(record.get("started"))[:10] for record in records} - {""})
    versions = _each(_of(record.get("versions")).get("asdf-antispoofing") for record in records)
    commits = _each(_commit(record) for record in records)
    hosts = _each(record.get("host") for record in records)
    parts = [
        " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "",
        f"ASDF {versions}" if versions else "",
    ]
    parts += [f"commit {commits}" if commits else "", f"host {hosts}" if hosts else ""]
    return " · ".join(filter(None, parts))


def training_table(gathered: Gathered) -> Html:
    """The evaluations during training, run by run."""
    training = [run.training() for run in gathered.runs]
    sets = list(
        dict.fromkeys(
            name for records in training for r in evaluations(records) for name in r["eer"]
        )
    )
    rows: list[list[Cell | Content]] = []
    ways = [in_precision(r.get("scoring_precision")) for one in training for r in evaluations(one)]
    for name, records in zip(gathered.names, training, strict=True):
        for record in evaluations(records):
            eers = [100 * record["eer"][one] if one in record["eer"] else None for one in sets]
            cells: list[Cell | Content] = [
                Cell("–") if eer is None else Cell(f"{eer:.2f}", eer) for eer in eers
            ]
            cells += [_text(record.get("scoring_precision"))] if any(ways) else []
            epoch, step = record.get("epoch"), record.get("step")
            rows.append(
                [name, _text(record.get("network")).removesuffix(".pt"), epoch, step, *cells]
            )
    head = ["Run", "Network", "Epoch", "Step", *(f"{name} EER %" for name in sets)]
    head += ["Scored in"] if any(ways) else []
    return table("Evaluations during training", head, rows)


def counts_of(gathered: Gathered) -> str:
    """How many trials each set has: 'dev 40 + 60 trials (bona fide + spoof)'."""
    parts = []
    for name in gathered.sets:
        sizes = {
            (one.summary.result.bona_fide, one.summary.result.spoof) for one in gathered.on(name)
        }
        texts = [f"{bona_fide:,} + {spoof:,}" for bona_fide, spoof in sorted(sizes)]
        parts.append(f"{name} {' or '.join(texts)}")
    systems = len(gathered.systems)
    plural = "s" * (systems != 1)
    return (
        f"{systems} system{plural} · trials, bona fide + spoof: {'; '.join(parts)}" if parts else ""
    )


def evaluations(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of evaluations that hold EERs."""
    return [
        one
        for one in records
        if one.get("kind") == "evaluation" and isinstance(one.get("eer"), dict)
    ]


def ends(gathered: Gathered) -> Html:
    """How the training of each run ended; many runs that ended alike are one line, which can be opened."""
    alike: dict[str, list[str]] = {}
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        reasons = [_text(one.get("reason")) for one in run.training() if one.get("kind") == "end"]
        words = _ended(reasons[-1]) if reasons else "still running, or killed"
        alike.setdefault(words, []).append(name)
    return tag("ul", *(_end_item(words, names) for words, names in alike.items()), class_="plain")


def _end_item(words: str, names: list[str]) -> Html:
    if len(names) <= _FEW:
        strong = join((tag("strong", name) for name in names), ", ")
        return tag("li", strong, f": {words}")
    each = tag("ul", *(tag("li", name) for name in names))
    return tag("li", tag("details", tag("summary", f"{len(names)} runs: {words}"), each))


def _ended(reason: str) -> str:
    """'ended after 4 epochs (network.max_epochs)' for the reason 'network.max_epochs = 4'."""
    limit = re.fullmatch(r"(network\.max_(epoch|step)s) = (\d+)", reason)
    if limit is None:
        return f"ended: {reason}"
    setting, unit, count = limit.groups()
    return f"ended after {int(count):,} {unit}{'s' * (int(count) != 1)} ({setting})"


def settings_of(gathered: Gathered) -> Html:
    """The settings of each run; those with their default are folded."""
    parts = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        settings = run.settings()
        chosen = {key: one for key, one in settings.items() if not _default(one)}
        rest = {key: one for key, one in settings.items() if _default(one)}
        summary = tag("summary", tag("strong", name), f" {len(chosen)} set, {len(rest)} defaults")
        inside = _settings_table(f"Settings of {name}", chosen)
        folded = tag(
            "details",
            tag("summary", f"{len(rest)} defaults"),
            _settings_table(f"Defaults of {name}", rest),
        )
        alone = len(gathered.runs) == 1
        parts.append(
            tag("details", summary, inside, folded, class_="run", open="" if alone else None)
        )
    return markup(tag("h3", "All settings"), *parts)


def differences(gathered: Gathered) -> Html | None:
    """The settings in which the runs differ, one column a run; None for a single run."""
    if len(gathered.runs) < 2:
        return None
    settings = [run.settings() for run in gathered.runs]
    rows: list[list[Cell | Content]] = []
    for key in dict.fromkeys(key for one in settings for key in one):
        found = [one.get(key) for one in settings]
        if len({one.text if one else None for one in found}) > 1:
            rows.append([_setting_name(key), *(_setting_cell(one) for one in found)])
    if not rows:
        return tag("p", "All runs have the same settings.")
    caption = "Settings in which the runs differ, with where each value comes from"
    inside = table(caption, ["Setting", *gathered.names], rows, class_="differences")
    return markup(tag("h3", "Differences"), inside)


def environment_of(name: str, run: RunFolder, *, opened: bool) -> Html:
    """What each start of a run ran on; `opened` shows the last one, else all are folded."""
    starts = [tag("h3", name)]
    records = run.environments()
    for number, record in enumerate(records):
        versions = ", ".join(
            f"{key} {value}" for key, value in _of(record.get("versions")).items() if value
        )
        changed = _of(record.get("git")).get("changed") or []
        variables = " ".join(
            f"{key}={value}" for key, value in _of(record.get("environment")).items()
        )
        shown: dict[str, Content] = {
            "Command": tag("code", _text(record.get("command"))),
            "Folder": tag("code", _text(record.get("working_directory"))),
            "Commit": _commit(record, short=False),
            "Changed files": ", ".join(str(one).strip() for one in changed),
            "Versions": ", ".join(
                filter(None, [f"Python {_text(record.get('python'))}", versions])
            ),
            "Host": " · ".join(
                filter(None, [_text(record.get("host")), _text(record.get("platform"))])
            ),
            "Devices": markup(*(tag("div", str(device)) for device in record.get("devices") or [])),
            "Variables": variables,
        }
        terms = [markup(tag("dt", key), tag("dd", value)) for key, value in shown.items() if value]
        summary = tag("summary", f"Started {_text(record.get('started')).replace('T', ' ')}")
        shown_first = "" if opened and number == len(records) - 1 else None
        starts.append(tag("details", summary, tag("dl", *terms), open=shown_first))
    return tag("div", *starts) if records else tag("div", *starts, tag("p", "No record was kept."))


def _settings_table(caption: str, settings: dict[str, KeptSetting]) -> Html:
    rows = [
        [_setting_name(key), tag("code", one.text), _source(one)] for key, one in settings.items()
    ]
    return table(caption, ["Setting", "Value", "Where from"], rows, tools=False, class_="settings")


def _source(one: KeptSetting) -> Html:
    """Where a setting is from; file and line, as `run_configs.py:15`, are never broken apart."""
    parts = (tag("span", part, class_="whole") for part in one.source.split(" "))
    return join(parts, " ")


def _setting_name(name: str) -> Html:
    """The name, which a narrow screen may break behind its dots and underscores."""
    return tag("code", *(Html(f"{markup(part)}<wbr>") for part in re.split(r"(?<=[._])", name)))


def _setting_cell(one: KeptSetting | None) -> Cell:
    if one is None:
        return Cell("–")
    return Cell(
        markup(tag("code", one.text), " ", tag("span", one.source, class_="where")), one.text
    )


def _default(one: KeptSetting) -> bool:
    return one.source.split(",")[0] == "default"


def _commit(record: dict[str, Any], *, short: bool = True) -> str:
    git = _of(record.get("git"))
    commit = _text(git.get("commit"))
    words = [
        commit[:9] if short else commit,
        f"on {git['branch']}" if git.get("branch") and not short else "",
    ]
    changed = len(git.get("changed") or [])
    words += [f"with {changed} changed file{'s' if changed > 1 else ''}" if changed else ""]
    return " ".join(filter(None, words)) if commit else ""


def _each(values: Any) -> str:
    return ", ".join(dict.fromkeys(_text(value) for value in values if value))


def _of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
