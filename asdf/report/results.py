"""The results as HTML: the main sentence, what looks wrong, the tables of every set; readable without a script.

Invariant: numbers are shown as `summarise` gives them, rounded for the eye only: cells keep all digits for sorting and
copying. The best of a column is named by a word, not by a colour alone, and only where a test says that it is the best.
"""

from __future__ import annotations

from asdf.metrics.bootstrap import Interval
from asdf.metrics.costs import ASVSPOOF5
from asdf.report.curves import DET_TICKS
from asdf.report.folding import Folded, folded
from asdf.report.gathering import Gathered, Measurement
from asdf.report.markup import (
    Cell,
    Content,
    Html,
    join,
    markup,
    name_cell,
    percent,
    table,
    tag,
)
from asdf.report.references import (
    KNOWN_SETS,
    Reference,
    comparable,
    of_the_same_length,
)
from asdf.trials.how_scored import in_precision
from asdf.trials.scored_length import described


def main_sentences(gathered: Gathered) -> list[Html]:
    """The result of each set in a sentence; the hardest attack in another."""
    sentences = []
    for name in gathered.sets:
        measured = gathered.on(name)
        best = measured[0]
        result, intervals = best.summary.result, best.summary.intervals
        named = (
            best.system
            if best.system.endswith(f" {best.network}")
            else f"{best.system} ({best.network})"
        )
        # Without an error to draw, every replicate is without one too: an interval of no width says nothing.
        wide = intervals is not None and intervals.eer.low < intervals.eer.high
        interval = f" (95 % interval {_interval(intervals.eer)} %)" if intervals and wide else ""
        words: list[Content] = [
            "On ", tag("strong", name), f", {named} has an EER of ",
            tag("strong", f"{percent(result.eer)} %"), f"{interval}{_rank(gathered, name)}, over ",
            f"{result.bona_fide:,} bona fide and {result.spoof:,} spoof trials ",
            f"(scored: {best.summary.scored.describe()}).",
        ]  # fmt: skip
        attacks = [one for one in best.summary.of_column("attack") if not one.few]
        hardest = max(attacks, key=lambda one: one.result.eer, default=None)
        if hardest and len(attacks) > 1 and hardest.result.eer > 0:
            words.append(
                f" Its hardest attack is {hardest.value}, at {percent(hardest.result.eer)} %."
            )
        sentences.append(markup(*words))
    return sentences


def _rank(gathered: Gathered, name: str) -> str:
    measured = gathered.on(name)
    if len(measured) < 2:
        return ""
    if "eer" in gathered.leading.get(name, {}):
        return f", significantly the lowest of {len(measured)} systems"
    alike = sum(one.summary.result.eer == measured[0].summary.result.eer for one in measured)
    shared = f" (as {alike - 1} other{'s' * (alike > 2)})" if alike > 1 else ""
    return f", the lowest of {len(measured)} systems{shared}, which may be chance"


def findings(gathered: Gathered) -> Html:
    """What looks wrong, or that nothing does; messages about many results are folded."""
    if not gathered.findings:
        return tag("p", "The checks of the scores found nothing wrong with them.", class_="fine")
    items = [_finding(one) for one in folded(gathered.findings)]
    return tag(
        "div", tag("h2", "What to look at first"), tag("ul", *items), class_="findings", role="note"
    )


def _finding(one: Folded) -> Html:
    where = tag("span", one.where, class_="where")
    words = markup(tag("strong", one.level), " ", where, f": {one.words}")
    if len(one.findings) == 1:
        return tag("li", words, class_=one.level)
    each = [tag("li", f"{place}: {message}") for place, _, message in one.findings]
    inside = tag("details", tag("summary", words), tag("ul", *each))
    return tag("li", inside, class_=one.level)


def overview(gathered: Gathered) -> Html:
    """The EER of every system on every set."""
    rows: list[list[Cell | Content]] = []
    for system in gathered.systems:
        own = {one.summary.set: one for one in gathered.measurements if one.system == system}
        row: list[Cell | Content] = [
            name_cell(system, gathered.labels[system]),
            ", ".join(dict.fromkeys(one.network for one in own.values())),
        ]
        for name in gathered.sets:
            row.append(_eer_cell(gathered, own[name]) if name in own else Cell("–"))
        rows.append(row)
    order = f", sorted by {gathered.sets[-1]}" if len(rows) > 1 and len(gathered.sets) > 1 else ""
    caption = f"EER in % on each set, with its 95 % interval{order}"
    return table(caption, ["System", "Network", *gathered.sets], rows, class_="overview")


def result_table(gathered: Gathered, name: str) -> Html:
    """All metrics of the systems on a set."""
    measured = gathered.on(name)
    speakers = any(one.summary.speaker_intervals for one in measured)
    head = [
        "System",
        "Network",
        "EER %",
        "95 % interval",
        *(["over speakers"] if speakers else []),
        "minDCF",
    ]
    head += ["95 % interval", "actDCF", "Cllr", "Threshold", "Bona fide", "Spoof", "Scored"]
    rows: list[list[Cell | Content]] = []
    for one in measured:
        result, intervals, over = (
            one.summary.result,
            one.summary.intervals,
            one.summary.speaker_intervals,
        )
        row: list[Cell | Content] = [
            name_cell(one.system, gathered.labels[one.system]),
            one.network,
        ]
        row.append(_marked(gathered, one, "eer", percent(result.eer), 100 * result.eer))
        row.append(_interval(intervals.eer) if intervals else "–")
        row += [_interval(over.eer) if over else "–"] if speakers else []
        row.append(_marked(gathered, one, "min_dcf", f"{result.min_dcf:.4f}", result.min_dcf))
        row.append(_interval(intervals.min_dcf, scale=1, digits=4) if intervals else "–")
        row += [
            Cell(_signed(value), value)
            for value in (result.act_dcf, result.cllr, result.eer_threshold)
        ]
        row += [Cell(f"{count:,}", count) for count in (result.bona_fide, result.spoof)]
        rows.append([*row, one.summary.scored.describe()])
    return table(f"Results on {name}", head, rows, class_="metrics")


def det_table(gathered: Gathered, name: str) -> Html:
    """The DET curves in words: miss rates at the false alarm rates of the ticks."""
    rows = []
    for one in gathered.on(name):
        cells: list[Cell | Content] = [
            name_cell(one.system, gathered.labels[one.system]),
            *(Cell(percent(rate), 100 * rate) for rate in one.misses),
        ]
        rows.append(cells)
    caption = f"Miss rate in % on {name} where at most so many of the spoofs are accepted"
    return table(caption, ["System", *(f"{tick:g} %" for tick in DET_TICKS)], rows)


def published(name: str, measured: list[Measurement]) -> Html | None:
    """What the literature has on this set by the same protocol, or why it is not shown.

    None for a set that is not a public one.
    """
    if name not in KNOWN_SETS:
        return None
    known = KNOWN_SETS[name]
    sizes = {(one.summary.result.bona_fide, one.summary.result.spoof) for one in measured}
    heading = tag("h3", "Published results")
    if not all(comparable(name, *size) for size in sizes):
        why = (
            f"Not shown: they are over {known.trials.bona_fide:,} bona fide and "
            f"{known.trials.spoof:,} spoof trials, and what was measured here is over others, so the "
            "numbers cannot be compared."
        )
        return markup(heading, tag("p", why))
    ours = list(dict.fromkeys(one.summary.scored.length for one in measured))
    alike = [one for one in known.results if any(one in of_the_same_length(known, s) for s in ours)]
    others = [described(one.scored) for one in known.results if one not in alike]
    lengths = "; ".join(dict.fromkeys(others))
    if not alike:
        why = (
            f"Not shown: they were scored from other lengths of the recordings ({lengths}) than what was measured "
            f"here ({'; '.join(map(described, ours))}), so the numbers cannot be compared."
        )
        return markup(heading, tag("p", why))
    rest = f" {len(others)} more are of other lengths ({lengths})." if others else ""
    text = tag(
        "p",
        tag("strong", "Not measured here."),
        " These numbers are the literature's, of the same trials and scored from as much of each recording; the "
        f"source is the system's paper.{rest}",
    )
    head = ["System", "EER %", "min t-DCF", "Scored", "Source", "Remark"]
    rows = [_published_row(one) for one in alike]
    caption = f"Published results on {known.title}"
    return markup(heading, text, table(caption, head, rows, class_="published"))


def _published_row(one: Reference) -> list[Cell | Content]:
    cost = Cell("–" if one.min_tdcf is None else f"{one.min_tdcf:g}", one.min_tdcf)
    scored = described(one.scored)
    return [one.system, Cell(f"{one.eer:.2f}", one.eer), cost, scored, one.paper, one.note]


def selection_note(gathered: Gathered) -> Html | None:
    """A word of caution where several networks of a run are shown."""
    runs = {one.system: one.run for one in gathered.measurements}
    if len(set(runs.values())) == len(runs):
        return None
    why = "a network chosen by its result on a set looks better there than it is on new speech"
    return tag(
        "p", f"Several networks of one run are shown: {why}. Choose on another set.", class_="note"
    )


def costs_note() -> str:
    """What the columns of the results are."""
    cost = ASVSPOOF5
    return (
        "EER: equal error rate, with the order of ties of the official ASVspoof packages. Intervals: bootstrap "
        "percentiles over trials, and over speakers where they are known; without a single error they have no width "
        "and say nothing. 'best' is significantly better than the next one (paired bootstrap on the same trials, "
        "p < 0.05), 'lowest' may be chance. 'Scored' is how much of each recording the scores are of, "
        "and in which arithmetic they were computed where that was not fp32. "
        "minDCF and actDCF: normalised detection "
        f"costs at a spoof prior of {cost.spoof_prior:g}, a miss costing {cost.miss:g} and a false alarm "
        f"{cost.false_alarm:g} (ASVspoof 5, track 1); actDCF and Cllr take the scores as log-likelihood ratios. "
        "A miss is bona fide speech that is rejected, a false alarm a spoof that is accepted."
    )


def _eer_cell(gathered: Gathered, one: Measurement) -> Cell:
    rate, intervals = one.summary.result.eer, one.summary.intervals
    shown = _marked(gathered, one, "eer", percent(rate), 100 * rate)
    below = tag("span", " ", _interval(intervals.eer), class_="interval") if intervals else None
    precision = in_precision(one.summary.scored.precision)
    return Cell(markup(shown.content, precision, below), shown.value, shown.class_)


def _marked(gathered: Gathered, one: Measurement, metric: str, text: str, value: float) -> Cell:
    """A value; 'best' stands next to it where a test says so, 'lowest' where chance may have made it so."""
    name = one.summary.set
    if gathered.leading.get(name, {}).get(metric) == one.system:
        return Cell(join([text, tag("span", "best", class_="mark")], " "), value, "best")
    values = [getattr(other.summary.result, metric) for other in gathered.on(name)]
    own = getattr(one.summary.result, metric)
    if len(values) > 1 and own == min(values) and values.count(own) == 1:
        return Cell(join([text, tag("span", "lowest", class_="mark soft")], " "), value)
    return Cell(text, value)


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def _interval(interval: Interval, scale: float = 100, digits: int = 2) -> str:
    return f"{scale * interval.low:.{digits}f}–{scale * interval.high:.{digits}f}"
