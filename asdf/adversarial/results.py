"""Output of a study of attacks as text, CSV, JSON, LaTeX, a page and a plot.

Invariant: every number is one of the study's; each attack is shown with random noise of the same
energy, and the numbers with what was attacked, how, and what was left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asdf.adversarial.attacks import ATTACKS, NOISE, Level
from asdf.adversarial.measuring import Effect, Success
from asdf.adversarial.running import Study
from asdf.metrics.bootstrap import Interval
from asdf.report import Document, Figure, Legend, Section, chart_svg, document_page
from asdf.robustness import interval_record, judging_sentence, left_out_notes
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.comma_separated import as_csv
from asdf.tables.page_cells import as_page
from asdf.tables.panels import Axis, Line, Panel
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_text
from asdf.tables.table import Column, Columns, Table, Value, each, rate

_SIZE = (640, 360)
_METRICS = ("eer", "min_dcf", "cllr", "miss", "false_alarm")
_SHARE_TICKS = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)


def attacks_text(study: Study) -> str:
    """Return a study as text."""
    parts = [*lead(study), *as_text(effects_table(study)), *warnings(study), *notes(study)]
    return "\n\n".join(parts) + "\n"


def attacks_json(study: Study, made_by: Mapping[str, Any]) -> str:
    """Return a study as JSON, with its provenance."""
    bona_fide, spoof = study.counts
    search = study.search
    return as_json(
        {
            "made_by": dict(made_by),
            "bona_fide": bona_fide,
            "spoof": spoof,
            "intervals_over": _over(study),
            "threshold": study.judging.threshold,
            "threshold_source": study.judging.source,
            # Attacked copies compute in float32, whatever the detector's own precision.
            "precision": "fp32",
            "scores_of": "whole recordings" if study.is_whole else "their beginnings",
            "pgd": {"steps": search.steps, "step": search.share, "restarts": search.restarts},
            "transferred_from": study.surrogate or None,
            "results": records(study),
            "warnings": warnings(study),
            "left_out_trials": study.left_out,
        }
    )


def attacks_csv(study: Study) -> str:
    """Return a row for each condition, with all digits."""
    keys = ["condition", "attack", "is_transferred", "snr_db", "peak", "median_snr_db"]
    for metric in _METRICS:
        keys += [metric, f"{metric}_low", f"{metric}_high"]
        keys += [f"{metric}_change", f"{metric}_change_low", f"{metric}_change_high"]
    keys += ["eer_p_holm", "min_dcf_p_holm"]
    keys += ["eer_of_spoofs", "eer_of_spoofs_low", "eer_of_spoofs_high"]
    # For the names alone, which all effects share.
    for name in _successes(study.effects[0]):
        keys += [f"{name}_turned", f"{name}_trials", name, f"{name}_low", f"{name}_high"]
    return as_csv(keys, records(study))


def attacks_latex(study: Study) -> str:
    """Return the table for a paper."""
    return "\n".join([PACKAGES, as_latex(effects_table(study))])


def records(study: Study) -> list[dict[str, Any]]:
    """Return the results as flat records of plain values; rates are fractions."""
    rows = []
    for effect in study.effects:
        condition = effect.condition
        row: dict[str, Any] = {"condition": condition.name}
        if condition.attack is not None and condition.level is not None:
            level = condition.level
            row |= {"attack": condition.attack.name, "is_transferred": condition.is_transferred}
            row["peak" if level.is_peak else "snr_db"] = level.value
            # JSON has no infinity.
            row["median_snr_db"] = effect.snr_db if math.isfinite(effect.snr_db) else None
        for metric in _METRICS:
            row |= interval_record(metric, effect.measured.values.get(metric))
            row |= interval_record(f"{metric}_change", effect.measured.changes.get(metric))
        for metric, p_value in effect.measured.p_values.items():
            row[f"{metric}_p_holm"] = p_value
        row |= interval_record("eer_of_spoofs", effect.eer_of_spoofs)
        if condition.attack is not None:
            for name, success in _successes(effect).items():
                row |= {f"{name}_turned": success.turned, f"{name}_trials": success.trials}
                row |= interval_record(name, success.interval)
        rows.append(row)
    return rows


def _successes(effect: Effect) -> dict[str, Success]:
    return {
        "success": effect.success,
        "success_of_spoofs": effect.success_of_spoofs,
        "success_of_bona_fide": effect.success_of_bona_fide,
    }


def _over(study: Study) -> str:
    return "speakers" if study.by_speakers else "trials"


def effects_table(study: Study) -> Table:
    """Return the table of a study: a row per condition, unattacked recordings first."""
    effects = study.effects
    exact = {"trials": "95 % exact"}
    # The success of random noise at the same level, next to each attack.
    of_noise = []
    snrs = []
    for effect in effects:
        noise = _noise_of(study, effect.condition.level)
        interval = None if noise is None or noise is effect else noise.success.interval
        of_noise.append(Value() if interval is None else Value(interval.value))
        snrs.append(Value(effect.snr_db) if math.isfinite(effect.snr_db) else Value())
    columns: Columns = [
        (rate("eer", "EER %", over={"trials": "95 %"}), _rates(effects, "eer")),
        (rate("eer_of_spoofs", "EER % spoofs attacked"), _values(each(effects, "eer_of_spoofs"))),
        (rate("false_alarm", "spoofs accepted %"), _rates(effects, "false_alarm", False)),
        (rate("miss", "genuine rejected %"), _rates(effects, "miss", False)),
        (rate("success", "success %", lower_is_better=None, over=exact), _shares(effects)),
        (rate("noise", "noise %", lower_is_better=None), of_noise),
        (Column("median_snr_db", "SNR dB", digits=2, paper_digits=1), snrs),
    ]
    labels = [effect.condition.label for effect in effects]
    return Table(labels, columns, "condition")


def _values(intervals: Sequence[Interval]) -> list[Value]:
    """Return numbers with intervals as tooltips; CSV and JSON have the intervals too."""
    values = []
    for known in intervals:
        title = f"95 % over this set: {known.low:.4g} to {known.high:.4g}"
        values.append(Value(known.value, title=title))
    return values


def _rates(effects: Sequence[Effect], metric: str, has_interval: bool = True) -> list[Value]:
    intervals = [effect.measured.values[metric] for effect in effects]
    if not has_interval:
        return _values(intervals)
    return Value.with_intervals(each(intervals, "value"), intervals)


def _shares(effects: Sequence[Effect]) -> list[Value]:
    values = []
    for effect in effects:
        interval = effect.success.interval
        if effect.condition.attack is None or interval is None:
            values.append(Value())
            continue
        title = f"{effect.success.turned} of {effect.success.trials}"
        values.append(Value(interval.value, {"trials": interval}, title=title))
    return values


def _noise_of(study: Study, level: Level | None) -> Effect | None:
    for effect in study.effects:
        attack = effect.condition.attack
        if attack is not None and attack.name == NOISE and effect.condition.level == level:
            return effect
    return None


def lead(study: Study) -> list[str]:
    """Return sentences on what was attacked, and how."""
    bona_fide, spoof = study.counts
    what = "the whole of each recording, over windows" if study.is_whole else "its trial score"
    search = study.search
    starts = "one random start" if search.restarts == 1 else f"{search.restarts} random starts"
    sentences = [
        f"{study.victim} under attack: {bona_fide + spoof:,} recordings ({bona_fide:,} bona fide, "
        f"{spoof:,} spoofed); the scores of spoofs are raised, those of genuine speech lowered.",
        f"The attack targets {what}, in float32, through the whole chain from samples to score; "
        f"the attacker knows the front end, weights and threshold. PGD: {search.steps} steps of "
        f"{search.share:.3g} radii from {starts}.",
        judging_sentence(study.victim, study.judging),
    ]
    if study.surrogate:
        sentences.append(
            f"Transferred attacks are computed on {study.surrogate}; the attacker knows nothing "
            f"about {study.victim} but which samples it scores."
        )
    return sentences


def notes(study: Study) -> list[str]:
    """Return the sentences that are needed to read the numbers."""
    lines = [
        "Success: of the recordings decided correctly without an attack, the share decided wrongly "
        "after it, with the exact 95 % interval (Clopper-Pearson); noise %: the same for random "
        "noise of the same level. SNR: median over the attacked recordings. EERs have 95 % "
        f"intervals (bootstrap over {_over(study)}); under 'spoofs attacked' genuine speech is "
        "unchanged.",
        "A success rate is a lower bound: other attacks, more steps or more starts may succeed "
        "more often.",
    ]
    return lines + left_out_notes(study.left_out)


def warnings(study: Study) -> list[str]:
    """Return a sentence on each sign that the network's gradients are not useful.

    The checks are from Athalye, Carlini and Wagner, "Obfuscated gradients give a false sense of
    security", ICML 2018: several steps should be better than one, and gradients better than chance.
    """
    sentences = []
    for effect in study.effects:
        attack = effect.condition.attack
        # Gradients of another network may well lead nowhere on this one.
        if attack is None or not attack.has_gradients or effect.condition.is_transferred:
            continue
        weaker = [_noise_of(study, effect.condition.level)]
        if attack.name != "fgsm":
            weaker.append(_white_box(study, "fgsm", effect.condition.level))
        for other in weaker:
            if other is None:
                continue
            first = effect.success.interval
            second = other.success.interval
            # Only where intervals are apart: among few recordings, either may be ahead by chance.
            if first is not None and second is not None and first.high < second.low:
                sentences.append(
                    f"WARNING: {effect.condition.label} changes fewer decisions than "
                    f"{other.condition.label}. The network's gradients may be uninformative "
                    "(rounding, saturation, noise): it may be weaker than these numbers suggest."
                )
    return sentences


def _white_box(study: Study, name: str, level: Level | None) -> Effect | None:
    for effect in study.effects:
        condition = effect.condition
        is_of_level = condition.level == level and not condition.is_transferred
        if is_of_level and condition.attack is ATTACKS[name]:
            return effect
    return None


def attacks_page(study: Study, facts: Sequence[str]) -> str:
    """Return a study as a page; `facts` are the small print below its title."""
    caption = f"{study.victim}: rates in % with 95 % intervals"
    table = as_page(effects_table(study), caption)
    section = Section(
        "success",
        "Success by strength",
        ["The share of correct decisions that each attack changes, by its signal-to-noise ratio."],
        figures=[success_figure(study)],
    )
    results = Section("attacks", "All attacks", [], [table], notes=notes(study))
    document = Document(
        f"{study.victim} under attack",
        lead(study),
        [section, results],
        alarms=[sentence.removeprefix("WARNING: ") for sentence in warnings(study)],
        facts=facts,
    )
    return document_page(document)


def success_svg(study: Study) -> str:
    """Draw success rates against levels as an SVG file."""
    figure = success_figure(study)
    return chart_svg(figure.panels[0], figure.legends[0].entries)


def success_figure(study: Study) -> Figure:
    """Return one panel: success rates against levels, a line for each attack."""
    effects = [effect for effect in study.effects if effect.condition.attack is not None]
    levels = list(dict.fromkeys(effect.condition.level for effect in effects))
    kinds: dict[str, list[Effect]] = {}
    for effect in effects:
        kinds.setdefault(effect.condition.kind_label, []).append(effect)
    lines: list[Line] = []
    entries = []
    words: list[str] = []
    for number, (kind, of_kind) in enumerate(kinds.items()):
        # Bars at the same level are offset, so that they do not hide each other.
        shift = 0.06 * (number - (len(kinds) - 1) / 2)
        positions = [levels.index(effect.condition.level) + shift for effect in of_kind]
        texts = _draw_attack(of_kind, positions, number, lines)
        words += texts.values()
        entries.append((Line((), number), kind))
    names = {float(index): level.label for index, level in enumerate(levels) if level}
    description = f"Success rates of attacks on {study.victim}. {'; '.join(words)}"
    panel = Panel(
        Axis(-0.4, len(levels) - 0.6, list(names), "signal-to-noise ratio", text=names.__getitem__),
        Axis(0, 100, _SHARE_TICKS, "decisions changed (%)"),
        *_SIZE,
        description=description,
        lines=lines,
    )
    text = "Bars are exact 95 % intervals; attacks are stronger to the right."
    return Figure(
        "attacks",
        "Success rate against perturbation",
        text,
        [panel],
        css="canvas",
        legends=[Legend("", entries)],
    )


def _draw_attack(
    effects: Sequence[Effect], positions: Sequence[float], number: int, lines: list[Line]
) -> dict[float, str]:
    """Add bars and the line of an attack to `lines`; return the texts of its marks by position."""
    points: list[float] = []
    texts: dict[float, str] = {}
    for x, effect in zip(positions, effects, strict=True):
        interval = effect.success.interval
        if interval is None:
            continue
        lines.append(Line([x, 100 * interval.low, x, 100 * interval.high], number))
        points += [x, 100 * interval.value]
        texts[x] = f"{effect.condition.label}: {100 * interval.value:.1f} %"
    lines.append(Line(points, number, mark_words=_mark_words(texts)))
    return texts


def _mark_words(texts: Mapping[float, str]) -> Callable[[float, float], str]:
    return lambda x, y: texts[x]
