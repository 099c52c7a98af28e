"""An audit as text, as a record for JSON, and as a page with plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asdf.extras.audit.auditing import Audit, Rebalanced, Result
from asdf.extras.audit.measuring import column_feature
from asdf.report import Document, Figure, Items, Legend, Section, Verdict, document_page
from asdf.tables.panels import Axis, Line, Panel, bars, nice_ticks, tick_text
from asdf.tables.renderers import as_lines, as_page
from asdf.tables.table import Table, Value, counts, each, p_values, rate, texts
from asdf.text import count_of, lines_and_more, shorten

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
    lines = [_lead(audit), "", *as_lines(_table(audit.results, audit)), "", _how_judged(audit)]
    for result in audit.shortcuts:
        lines += ["", f"shortcut: {_sentence(result)}", f"  -> {result.feature.advice}"]
        if result.feature.settings:
            lines.append(f"     {result.feature.settings}")
    telling = [result for result in audit.unheard if result.is_shortcut]
    if telling:
        known = ", ".join(f"{result.feature.name} ({_percent(result)})" for result in telling)
        lines += ["", f"names, which no network hears, distinguish the classes: {known}"]
    for group in audit.groups:
        members = lines_and_more(group.members, _SHOWN, indent="    ")
        lines += ["", f"{group.title} ({len(group.members)}):{members}", f"  -> {group.advice}"]
    lines += ["", "nothing was found." if audit.is_clean else _summary(audit)]
    if audit.shortcuts:
        lines.append(_LISTS)
    return "\n".join(lines) + "\n"


def rebalanced_text(result: Rebalanced) -> str:
    """Return the remaining recordings of lists, and the result of their second audit."""
    left, eers = _rebalanced_tables(result)
    lines = [*_rebalanced_sentences(result), "", *as_lines(left), "", *as_lines(eers)]
    return "\n".join(lines)


def audit_record(audit: Audit, rebalanced: Rebalanced | None = None) -> dict[str, Any]:
    """Return an audit as plain values, with rebalanced lists."""
    total, bona_fide, spoof = audit.counts
    record = {
        "lists": list(audit.names),
        "recordings": total,
        "bona_fide": bona_fide,
        "spoof": spoof,
        "speakers": audit.speakers,
        "limit": audit.limit,
        "chance_eer": [audit.chance.low, audit.chance.high],
        "is_clean": audit.is_clean,
        "features": list(map(result_record, audit.results)),
        "names": list(map(result_record, audit.unheard)),
        "findings": [
            {"finding": group.title, "advice": group.advice, "members": list(group.members)}
            for group in audit.groups
        ],
    }
    if rebalanced is not None:
        after = rebalanced.after
        record["rebalanced"] = {
            "matched_by": list(rebalanced.features),
            "caliper": rebalanced.caliper,
            "lists": {
                trials.name: {
                    "recordings": len(trials),
                    "kept": len(part),
                    "kept_bona_fide": int((part.labels == 1).sum()),
                    "kept_spoof": int((part.labels == 0).sum()),
                }
                for trials, part in zip(rebalanced.lists, rebalanced.selected, strict=True)
            },
            "eer_after": {one.feature.key: one.separation.eer.value for one in after.results},
            "shortcuts_left": each(after.shortcuts, "feature.key"),
        }
    return record


def result_record(result: Result) -> dict[str, Any]:
    eer = result.separation.eer
    return {
        "feature": result.feature.key,
        "eer": eer.value,
        "interval": [eer.low, eer.high],
        "auc": result.separation.auc,
        "p_value": result.p_value,
        "is_shortcut": result.is_shortcut,
        "advice": result.feature.advice * result.is_shortcut,
        "settings": result.feature.settings * result.is_shortcut,
    }


def audit_page(audit: Audit, facts: Sequence[str], rebalanced: Rebalanced | None = None) -> str:
    """Return an audit as a page; `facts` are the small print below its title."""
    sections = [shortcut_section(audit)]
    if rebalanced is not None:
        captions = ("Recordings that are left", "Features, before and after")
        tables = list(map(as_page, _rebalanced_tables(rebalanced), captions))
        words = _rebalanced_sentences(rebalanced)
        sections.append(Section("rebalanced", "Rebalanced lists", words, tables))
    if audit.unheard:
        words = ["No network hears these; people, scripts and sorted copies do."]
        tables = [as_page(_table(audit.unheard, audit), "Detectors of names and tags")]
        sections.append(Section("names", "Names and tags", words, tables))
    alarms = []
    for result in audit.shortcuts:
        sentence = f"{_sentence(result)}. {result.feature.advice}"
        alarms.append(sentence[0].upper() + sentence[1:])
    lists = []
    for group in audit.groups:
        title = f"{group.title.capitalize()} ({len(group.members):,})"
        left_out = len(group.members) - _SHOWN_ON_PAGE
        more = f"{left_out:,} more are in the JSON." if left_out > 0 else ""
        lists.append(Items(title, group.advice, group.members[:_SHOWN_ON_PAGE], more))
        alarms.append(f"{title}. {group.advice}")
    if lists:
        sections.append(Section("recordings", "Recordings and splits", lists=lists))
    found = "Nothing was found." if audit.is_clean else _summary(audit)
    verdict = Verdict(found, "" if audit.is_clean else "mixed", lead=[_lead(audit)])
    title = f"Audit of {', '.join(audit.names)}"
    return document_page(Document(title, verdict, sections, alarms=alarms, facts=facts))


def _lead(audit: Audit) -> str:
    total, bona_fide, spoof = audit.counts
    speakers = "speakers not known" if audit.speakers is None else f"{audit.speakers:,} speakers"
    return (
        f"{total:,} recordings: {bona_fide:,} bona fide and {spoof:,} spoofed ones were compared; "
        f"{speakers}."
    )


def _how_judged(audit: Audit) -> str:
    units, permuted = "recordings", "labels permuted"
    if audit.speakers is not None:
        units, permuted = "speakers", "speakers permuted as blocks"
    return (
        f"EER in %, cross-validated by {units}; uninformative scores reach "
        f"{100 * audit.chance.low:.1f} to {100 * audit.chance.high:.1f}. A shortcut is below "
        f"{100 * audit.limit:g}, with p < 0.05 for all of them together ({permuted}; Holm)."
    )


def _summary(audit: Audit) -> str:
    return (
        f"Found: {count_of(len(audit.shortcuts), 'shortcut')} that a network can hear, and "
        f"{count_of(len(audit.groups), 'further finding')}."
    )


def _percent(result: Result) -> str:
    return f"EER {100 * result.separation.eer.value:.2f} %"


def _sentence(result: Result) -> str:
    alone = "" if result.is_joint else " alone"
    return f"{result.feature.name}{alone} has an {_percent(result).replace('EER', 'EER of')}"


def _table(results: Sequence[Result], audit: Audit) -> Table:
    over = "trials" if audit.speakers is None else "speakers"
    marks = ["shortcut" if result.is_shortcut else "" for result in results]
    columns = [
        (rate("eer", "EER %", over={"trials": f"95 % over {over}"}), list(map(_eer, results))),
        p_values(each(results, "p_value")),
        texts("finding", marks, is_left=True),
    ]
    return Table(each(results, "feature.name"), columns, "feature")


def _eer(result: Result | None) -> Value:
    # A feature with a single remaining value is not in the audit of rebalanced lists.
    if result is None:
        return Value(0.5)
    return Value(result.separation.eer.value, {"trials": result.separation.eer})


def _rebalanced_sentences(result: Rebalanced) -> list[str]:
    """Return sentences on the matching, and on the second audit."""
    features = ", ".join(column_feature(key).name for key in result.features)
    matched = (
        f"Both classes of each list were matched by {features}: the nearest recordings, at most "
        f"{100 * result.caliper:g} % of the ranks apart. The others are dropped."
    )
    still = ", ".join(each(result.after.shortcuts, "feature.name"))
    if still:
        return [matched, f"A new audit still finds a shortcut: {still}. Change the recordings."]
    return [matched, "A new audit finds no shortcut."]


def _rebalanced_tables(result: Rebalanced) -> tuple[Table, Table]:
    """Return the numbers of kept recordings, and the EERs of features before and after."""
    kept = []
    for kind, label in (("bona fide", 1), ("spoof", 0)):
        for heading, lists in ((kind, result.selected), (f"of {kind}", result.lists)):
            kept.append(counts(heading, [int((one.labels == label).sum()) for one in lists]))
    after = {one.feature.key: one for one in result.after.results}
    matched = result.features
    before = [one for one in result.before.results if one.feature.key in matched or one.is_joint]
    now = [_eer(after.get(one.feature.key)) for one in before]
    columns = [
        (rate("before", "EER % before"), list(map(_eer, before))),
        (rate("after", "after", over={"trials": "95 % after"}), now),
    ]
    names = each(before, "feature.name")
    return Table(each(result.lists, "name"), kept, "list"), Table(names, columns, "feature")


def shortcut_section(audit: Audit) -> Section:
    settings = list(dict.fromkeys(filter(None, each(audit.shortcuts, "feature.settings"))))
    if settings:
        settings.insert(0, "# Against these shortcuts, in a config:")
    # The most revealing features, even without shortcuts, so that readers see small differences.
    heard = [result for result in audit.results if result.feature.key != "speaker"]
    drawn = [result for result in heard if len(set(result.values) - {None}) > 1]
    panels = [feature_panel(result, audit) for result in drawn[:_PICTURES]]
    figure = Figure(
        "features",
        "Features",
        "Share of each class in per cent, the most telling feature first; the outermost bars hold "
        "all values beyond them.",
        panels,
        legends=[Legend("", [(Line((), 0), "bona fide"), (Line((), 1), "spoof")])],
    )
    return Section(
        "shortcuts",
        "Shortcuts",
        ["A detector of each feature alone, without the speech itself:"],
        [as_page(_table(audit.results, audit), "Detectors of one feature")],
        [figure] if panels else [],
        code="\n".join(settings),
        notes=[_how_judged(audit)],
    )


def feature_panel(result: Result, audit: Audit) -> Panel:
    """Return the histograms of a feature in both classes."""
    if result.feature.is_word:
        # The most frequent words first; rare ones are in no bar.
        words, codes, counted = np.unique(
            np.array(result.values, str), return_inverse=True, return_counts=True
        )
        kept = np.argsort(-counted, kind="stable")[:_WORDS]
        count = len(kept)
        bar_of_word = np.full(len(words), -1)
        bar_of_word[kept] = np.arange(count)
        known, bar_of = np.ones(len(codes), bool), bar_of_word[codes]
        ticks = (np.arange(count) + 0.5).tolist()
        # Many names would overlap.
        names = list(map(str, range(1, count + 1)))
        if count <= _NAMED:
            names = [shorten(name, _NAME) for name in words[kept].tolist()]
    else:
        count = _BINS
        numbers = np.array(result.values, np.float64)
        known = np.isfinite(numbers)
        # A single outlier would push all others into one bar.
        low, high = np.quantile(numbers[known], [0.01, 0.99])
        if high <= low:
            low, high = numbers[known].min(), numbers[known].max()
        bar_of = np.searchsorted(np.linspace(low, high, count + 1)[1:-1], numbers, side="right")
        ends = nice_ticks(float(low), float(high), 4)
        ticks = ((np.array(ends) - low) / (high - low) * count).tolist()
        names = list(map(tick_text, ends))
    edges = np.arange(count + 1, dtype=np.float64)
    lines: list[Line] = []
    highest = 1.0
    for index, label in enumerate((True, False)):
        places = bar_of[known & (audit.labels == label)]
        counted = np.bincount(places[places >= 0], minlength=count)
        shares = 100 * counted / max(len(places), 1)
        lines += bars(edges, shares, index)
        highest = max(highest, float(shares.max()))
    top = 1.06 * highest
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
