"""The results as HTML: the main sentence, what looks wrong, the tables of every set; readable without a script.

Invariant: numbers are shown as `summarise` gives them, rounded for the eye only: cells keep all digits for sorting and
copying. The best of a column is told by a word, not by a colour alone.
"""

from __future__ import annotations

from asdf.evaluation.bootstrap import Interval
from asdf.evaluation.costs import ASVSPOOF5
from asdf.evaluation.report.curves import DET_TICKS
from asdf.evaluation.report.gathering import Gathered, Measurement
from asdf.evaluation.report.markup import Cell, Content, Html, join, markup, percent, table, tag
from asdf.evaluation.report.references import KNOWN_SETS, Reference, comparable


def main_sentences(gathered: Gathered) -> list[Html]:
    """The result of each set in a sentence; the hardest attack in another."""
    sentences = []
    for name in gathered.sets:
        measured = gathered.on(name)
        best = min(measured, key=lambda one: one.summary.result.eer)
        result, intervals = best.summary.result, best.summary.intervals
        others = f", the lowest of {len(measured)} systems" if len(measured) > 1 else ""
        named = best.system if best.system.endswith(f" {best.network}") else f"{best.system} ({best.network})"
        # Without an error to draw, every replicate is without one too: an interval of no width tells nothing.
        wide = intervals is not None and intervals.eer.low < intervals.eer.high
        interval = f" (95 % interval {_interval(intervals.eer)} %)" if intervals and wide else ""
        words: list[Content] = [
            "On ", tag("strong", name), f", {named} has an EER of ",
            tag("strong", f"{percent(result.eer)} %"), f"{interval}{others}, over {result.bona_fide:,} bona fide and ",
            f"{result.spoof:,} spoof trials.",
        ]  # fmt: skip
        attacks = best.summary.of_column("attack")
        hardest = max(attacks, key=lambda one: one.result.eer, default=None)
        if hardest and len(attacks) > 1 and hardest.result.eer > 0:
            words.append(f" Its hardest attack is {hardest.value}, at {percent(hardest.result.eer)} %.")
        sentences.append(markup(*words))
    return sentences


def findings(gathered: Gathered) -> Html:
    """What looks wrong, or that nothing does."""
    if not gathered.findings:
        return tag("p", "The checks of the scores found nothing wrong with them.", class_="fine")
    items = [
        tag("li", tag("strong", level), " ", tag("span", where, class_="where"), ": ", message, class_=level)
        for where, level, message in gathered.findings
    ]
    return tag("div", tag("h2", "What to look at first"), tag("ul", *items), class_="findings", role="note")


def overview(gathered: Gathered) -> Html:
    """The EER of every system on every set."""
    rows: list[list[Cell | Content]] = []
    best = {name: min(one.summary.result.eer for one in gathered.on(name)) for name in gathered.sets}
    for system in gathered.systems:
        own = {one.summary.set: one for one in gathered.measurements if one.system == system}
        row: list[Cell | Content] = [system, ", ".join(dict.fromkeys(one.network for one in own.values()))]
        for name in gathered.sets:
            row.append(_eer_cell(own[name], best[name], len(gathered.on(name)) > 1) if name in own else Cell("–"))
        rows.append(row)
    caption = "EER in % on each set, with its 95 % interval"
    return table(caption, ["System", "Network", *gathered.sets], rows, class_="overview")


def result_table(name: str, measured: list[Measurement]) -> Html:
    """All metrics of the systems on a set."""
    speakers = any(one.summary.speaker_intervals for one in measured)
    head = ["System", "Network", "EER %", "95 % interval", *(["over speakers"] if speakers else []), "minDCF"]
    head += ["95 % interval", "actDCF", "Cllr", "Threshold", "Bona fide", "Spoof"]
    best_eer = min(one.summary.result.eer for one in measured)
    best_cost = min(one.summary.result.min_dcf for one in measured)
    rows: list[list[Cell | Content]] = []
    for one in measured:
        result, intervals, over = one.summary.result, one.summary.intervals, one.summary.speaker_intervals
        row: list[Cell | Content] = [one.system, one.network]
        row.append(_best(percent(result.eer), 100 * result.eer, result.eer == best_eer and len(measured) > 1))
        row.append(_interval(intervals.eer) if intervals else "–")
        row += [_interval(over.eer) if over else "–"] if speakers else []
        row.append(_best(f"{result.min_dcf:.4f}", result.min_dcf, result.min_dcf == best_cost and len(measured) > 1))
        row.append(_interval(intervals.min_dcf, scale=1, digits=4) if intervals else "–")
        row += [Cell(_signed(value), value) for value in (result.act_dcf, result.cllr, result.eer_threshold)]
        row += [Cell(f"{count:,}", count) for count in (result.bona_fide, result.spoof)]
        rows.append(row)
    return table(f"Results on {name}", head, rows, class_="metrics")


def det_table(name: str, measured: list[Measurement]) -> Html:
    """The DET curves in words: miss rates at the false alarm rates of the ticks."""
    rows = []
    for one in measured:
        cells: list[Cell | Content] = [one.system, *(Cell(percent(rate), 100 * rate) for rate in one.misses)]
        rows.append(cells)
    caption = f"Miss rate in % on {name} where at most so many of the spoofs are accepted"
    return table(caption, ["System", *(f"{tick:g} %" for tick in DET_TICKS)], rows)


def published(name: str, measured: list[Measurement]) -> Html | None:
    """What the literature has on this set, or that it is on other trials; None for a set that is not a public one."""
    if name not in KNOWN_SETS:
        return None
    known = KNOWN_SETS[name]
    sizes = {(one.summary.result.bona_fide, one.summary.result.spoof) for one in measured}
    heading = tag("h3", "Published results")
    if not all(comparable(name, *size) for size in sizes):
        why = (
            f"Not shown: they are over {known.bona_fide:,} bona fide and {known.spoof:,} spoof trials, and what was "
            "measured here is over others, so the numbers cannot be compared."
        )
        return markup(heading, tag("p", why))
    rows = [_published_row(one) for one in known.results]
    text = tag(
        "p",
        tag("strong", "Not measured here."),
        " These numbers are the literature's; the source is the system's paper.",
    )
    head = ["System", "EER %", "min t-DCF", "Source", "Remark"]
    return markup(heading, text, table(f"Published results on {known.title}", head, rows, class_="published"))


def _published_row(one: Reference) -> list[Cell | Content]:
    cost = Cell("–" if one.min_tdcf is None else f"{one.min_tdcf:g}", one.min_tdcf)
    return [one.system, Cell(f"{one.eer:.2f}", one.eer), cost, one.paper, one.note]


def selection_note(gathered: Gathered) -> Html | None:
    """A word of caution where several networks of a run are shown."""
    runs = {one.system: one.run for one in gathered.measurements}
    if len(set(runs.values())) == len(runs):
        return None
    why = "a network chosen by its result on a set looks better there than it is on new speech"
    return tag("p", f"Several networks of one run are shown: {why}. Choose on another set.", class_="note")


def costs_note() -> str:
    """What the columns of the results are."""
    cost = ASVSPOOF5
    return (
        "EER: equal error rate, with the order of ties of the official ASVspoof packages. Intervals: bootstrap "
        "percentiles over trials, and over speakers where they are known; without a single error they have no width "
        "and tell nothing. minDCF and actDCF: normalised detection "
        f"costs at a spoof prior of {cost.spoof_prior:g}, a miss costing {cost.miss:g} and a false alarm "
        f"{cost.false_alarm:g} (ASVspoof 5, track 1); actDCF and Cllr take the scores as log-likelihood ratios. "
        "A miss is bona fide speech that is rejected, a false alarm a spoof that is accepted."
    )


def _eer_cell(one: Measurement, best: float, several: bool) -> Cell:
    rate, intervals = one.summary.result.eer, one.summary.intervals
    shown = _best(percent(rate), 100 * rate, several and rate == best)
    below = tag("span", " ", _interval(intervals.eer), class_="interval") if intervals else None
    return Cell(markup(shown.content, below), shown.value, shown.class_)


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def _best(text: str, value: float, best: bool) -> Cell:
    return Cell(join([text, tag("span", "best", class_="mark")], " "), value, "best") if best else Cell(text, value)


def _interval(interval: Interval, scale: float = 100, digits: int = 2) -> str:
    return f"{scale * interval.low:.{digits}f}–{scale * interval.high:.{digits}f}"
