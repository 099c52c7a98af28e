"""Output of an audit as text, as JSON and as a page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asdf.extras.audit.audited import Audit, Group, Result, as_record
from asdf.extras.audit.rebalancing import (
    Rebalanced,
    rebalanced_record,
    rebalanced_sentences,
    rebalanced_tables,
)
from asdf.report import Document, Figure, Items, Legend, Section, document_page
from asdf.tables.page_cells import as_page
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, tick_text
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Table, Value, rate, texts
from asdf.text import lines_and_more, p_value_text, shorten

_LISTS = (
    "Lists with fewer recordings, in which both classes are alike in these: --rebalance FOLDER."
)
_SHOWN = 5
_SHOWN_ON_PAGE = 200
_PICTURES = 12
_BINS = 16
_WORDS = 12
# Maximum number of names that fit below an axis.
_NAMED = 3
_NAME = 12


def audit_text(audit: Audit) -> str:
    """Return an audit as text: findings and advice."""
    lines = [_lead(audit), ""]
    lines += as_lines(_table(audit.results, audit))
    lines += ["", _chance_sentence(audit)]
    for result in audit.shortcuts:
        lines += ["", f"shortcut: {_sentence(result)}", f"  -> {result.feature.advice}"]
        if result.feature.settings:
            lines.append(f"     {result.feature.settings}")
    names = []
    for result in audit.unheard:
        if result.is_shortcut:
            names.append(f"{result.feature.name} ({_percent(result)})")
    if names:
        known = ", ".join(names)
        lines += ["", f"names, which no network hears, distinguish the classes: {known}"]
    for group in audit.groups:
        members = lines_and_more(group.members, _SHOWN, indent="    ")
        lines += ["", f"{len(group.members)} {group.title}:{members}", f"  -> {group.advice}"]
    for sentence in audit.papers:
        lines += ["", sentence]
    lines += ["", "nothing was found." if audit.is_clean else _summary(audit)]
    if audit.shortcuts:
        lines.append(_LISTS)
    return "\n".join(lines) + "\n"


def rebalanced_text(result: Rebalanced) -> str:
    """Return the remaining recordings of lists, and the result of their second audit."""
    left, eers = rebalanced_tables(result)
    lines = [*rebalanced_sentences(result), "", *as_lines(left), "", *as_lines(eers)]
    return "\n".join(lines)


def audit_json(
    audit: Audit,
    made_by: dict[str, Any],
    rebalanced: Rebalanced | None = None,
) -> str:
    """Return an audit as JSON, with its provenance, and with rebalanced lists."""
    record = {"made_by": made_by, **as_record(audit)}
    if rebalanced is not None:
        record["rebalanced"] = rebalanced_record(rebalanced)
    return as_json(record)


def audit_page(
    audit: Audit,
    facts: Sequence[str],
    rebalanced: Rebalanced | None = None,
) -> str:
    """Return an audit as a page; `facts` are the small print below its title."""
    sections = [_shortcut_section(audit)]
    if rebalanced is not None:
        sections.append(_rebalanced_section(rebalanced))
    if audit.unheard:
        sections.append(
            Section(
                "names",
                "Names and tags",
                ["No network hears these; people, scripts and sorted copies do."],
                [as_page(_table(audit.unheard, audit), "Detectors of names and tags")],
            )
        )
    if audit.groups:
        lists = list(map(_items, audit.groups))
        sections.append(Section("recordings", "Recordings and splits", lists=lists))
    alarms = []
    for result in audit.shortcuts:
        words = f"{_sentence(result)}. {result.feature.advice}"
        alarms.append(words[0].upper() + words[1:])
    for group in audit.groups:
        alarms.append(f"{len(group.members):,} {group.title}. {group.advice}")
    document = Document(
        f"Audit of {', '.join(audit.names)}",
        [_lead(audit), "Nothing was found." if audit.is_clean else _summary(audit)],
        sections,
        alarms=alarms,
        facts=facts,
    )
    return document_page(document)


def _lead(audit: Audit) -> str:
    total, bona_fide, spoof = audit.counts
    speakers = "speakers not known" if audit.speakers is None else f"{audit.speakers:,} speakers"
    return (
        f"{total:,} recordings: {bona_fide:,} bona fide and {spoof:,} spoofed ones were compared; "
        f"{speakers}."
    )


def _chance_sentence(audit: Audit) -> str:
    units = "recordings"
    permuted = "labels permuted"
    if audit.speakers is not None:
        units = "speakers"
        permuted = "speakers permuted as blocks"
    return (
        f"EER in %, cross-validated by {units}; uninformative scores reach "
        f"{100 * audit.chance.low:.1f} to {100 * audit.chance.high:.1f}. A shortcut is below "
        f"{100 * audit.limit:g}, with p < 0.05 for all of them together ({permuted}; Holm)."
    )


def _summary(audit: Audit) -> str:
    shortcuts = len(audit.shortcuts)
    return (
        f"Found: {shortcuts} {'shortcut' if shortcuts == 1 else 'shortcuts'} that a network can "
        f"hear, and {len(audit.groups)} further "
        f"{'finding' if len(audit.groups) == 1 else 'findings'}."
    )


def _percent(result: Result) -> str:
    return f"EER {100 * result.separation.eer.value:.2f} %"


def _sentence(result: Result) -> str:
    eer = 100 * result.separation.eer.value
    alone = "" if result.is_joint else " alone"
    text = f"{result.feature.name}{alone} has an EER of {eer:.2f} %"
    if result.published:
        published, source = result.published
        text += f" ({100 * published:.1f} % in {source})"
    return text


def _table(results: Sequence[Result], audit: Audit) -> Table:
    names = []
    eers = []
    p_values = []
    marks = []
    for result in results:
        eer = result.separation.eer
        names.append(result.feature.name)
        eers.append(Value(eer.value, {"trials": eer}))
        p_values.append(_p_text(result.p_value))
        marks.append("shortcut" if result.is_shortcut else "")
    over = "trials" if audit.speakers is None else "speakers"
    eer_column = rate("eer", "EER %", over={"trials": f"95 % over {over}"})
    columns = [
        (eer_column, eers),
        texts("p", p_values),
        texts("finding", marks, is_left=True),
    ]
    return Table(names, columns, "feature")


def _p_text(p_value: float | None) -> str:
    return "-" if p_value is None else p_value_text(p_value).removeprefix("= ")


def _rebalanced_section(rebalanced: Rebalanced) -> Section:
    left, eers = rebalanced_tables(rebalanced)
    return Section(
        "rebalanced",
        "Rebalanced lists",
        rebalanced_sentences(rebalanced),
        [
            as_page(left, "Recordings that are left"),
            as_page(eers, "Features, before and after"),
        ],
    )


def _items(group: Group) -> Items:
    left_out = len(group.members) - _SHOWN_ON_PAGE
    more = f"{left_out:,} more are in the JSON." if left_out > 0 else ""
    title = f"{len(group.members):,} {group.title}"
    return Items(title, group.advice, group.members[:_SHOWN_ON_PAGE], more)


def _shortcut_section(audit: Audit) -> Section:
    settings: list[str] = []
    for result in audit.shortcuts:
        setting = result.feature.settings
        if setting and setting not in settings:
            settings.append(setting)
    if settings:
        settings.insert(0, "# Against these shortcuts, in a config:")
    # The most revealing features, even without shortcuts, so that readers see small differences.
    panels: list[Panel] = []
    for result in audit.results:
        known = set(result.values) - {None}
        has_picture = result.feature.key != "speaker" and len(known) > 1
        if has_picture and len(panels) < _PICTURES:
            panels.append(_picture(result, audit))
    classes = [(Line((), 0), "bona fide"), (Line((), 1), "spoof")]
    figure = Figure(
        "features",
        "Features",
        "Share of each class in per cent, the most telling feature first; the outermost bars hold "
        "all values beyond them.",
        panels,
        legends=[Legend("", classes)],
    )
    published = [f"{_sentence(result)}." for result in audit.results if result.published]
    return Section(
        "shortcuts",
        "Shortcuts",
        ["A detector of each feature alone, without the speech itself:"],
        [as_page(_table(audit.results, audit), "Detectors of one feature")],
        [figure] if panels else [],
        code="\n".join(settings),
        notes=[_chance_sentence(audit), *published, *audit.papers],
    )


def _picture(result: Result, audit: Audit) -> Panel:
    if result.feature.is_word:
        shares, ticks, names = _word_shares(result, audit)
    else:
        shares, ticks, names = _number_shares(result, audit)
    count = shares.shape[1]
    top = 1.06 * max(float(shares.max()), 1.0)
    lines: list[Line] = []
    edges = np.arange(count + 1, dtype=np.float64)
    for index, row in enumerate(shares):
        corners = np.stack([np.repeat(edges, 2), [0, *np.repeat(row, 2), 0]], axis=1)
        for is_area in (True, False):
            lines.append(Line(corners.ravel().tolist(), index, is_area=is_area))
    unit = f" ({result.feature.unit})" if result.feature.unit else ""
    text = dict(zip(ticks, names, strict=True))
    title = f"{result.feature.name}: {_percent(result)}"
    return Panel(
        Axis(0, count, ticks, f"{result.feature.name}{unit}", text=lambda x: text[x]),
        Axis(0, top, nice_ticks(0, top, 4), "share (%)"),
        340,
        240,
        title=title,
        description=f"{title}. Shares of bona fide and of spoofed recordings.",
        lines=lines,
    )


def _number_shares(result: Result, audit: Audit) -> tuple[np.ndarray, list[float], list[str]]:
    """Return the proportions of both classes in bins, (2, bins), with ticks and their names."""
    numbers = np.array(result.values, np.float64)
    known = np.isfinite(numbers)
    # A single outlier would push all others into one bar.
    low, high = np.quantile(numbers[known], [0.01, 0.99])
    if high <= low:
        low, high = float(numbers[known].min()), float(numbers[known].max())
    ends = nice_ticks(float(low), float(high), 4)
    edges = np.linspace(low, high, _BINS + 1)
    shares = np.zeros((2, _BINS))
    for row, is_bona_fide in enumerate((True, False)):
        chosen = np.clip(numbers[known & (audit.labels == is_bona_fide)], low, high)
        counts = np.histogram(chosen, edges)[0]
        shares[row] = 100 * counts / max(len(chosen), 1)
    positions = (np.array(ends) - low) / (high - low) * _BINS
    return shares, positions.tolist(), list(map(tick_text, ends))


def _word_shares(result: Result, audit: Audit) -> tuple[np.ndarray, list[float], list[str]]:
    """Return the proportions of both classes by word, the most frequent words first."""
    words = np.array(result.values, str)
    names, counts = np.unique(words, return_counts=True)
    kept = names[np.argsort(-counts, kind="stable")][:_WORDS].tolist()
    shares = np.zeros((2, len(kept)))
    for row, is_bona_fide in enumerate((True, False)):
        chosen = words[audit.labels == is_bona_fide]
        for column, name in enumerate(kept):
            shares[row, column] = 100 * float(np.mean(chosen == name))
    positions = np.arange(len(kept)) + 0.5
    # Many names would overlap.
    labels = list(map(str, range(1, len(kept) + 1)))
    if len(kept) <= _NAMED:
        labels = [shorten(name, _NAME) for name in kept]
    return shares, positions.tolist(), labels
