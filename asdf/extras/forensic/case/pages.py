"""A case as a page: one file for screens, phones and paper.

Invariant: the same case gives the same bytes; everything that readers of a printout need is on the
page itself, without collapsed parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from asdf.extras.forensic.case.examining import Case, Examined, FileFacts, Outline, Validation
from asdf.extras.forensic.case.wording import limits, propositions, statements
from asdf.metrics.calibration import Calibration
from asdf.metrics.intervals import Interval
from asdf.report import Document, Figure, Items, Section, Verdict, document_page, llr_figures
from asdf.scoring.columns import four_digits, join_placed
from asdf.scoring.scored import BONA_FIDE, MIXED, SPOOF, Scored, WindowScore
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, time_axis
from asdf.tables.renderers import ABSENT, Cell, PageTable
from asdf.text import printable

_WIDTH = 520
_WAVEFORM_HEIGHT = 130
_SCORES_HEIGHT = 230
# More marks would merge into a thick line.
_MAX_MARKS = 60
_KB = 1000
# Classes of the colours of verdicts.
_CLASSES = {BONA_FIDE: "genuine", SPOOF: "spoof", MIXED: "mixed"}
_DIGIT_SPACE = "\u2007"
# Entries of a calibration whose names could be misread.
_ENTRIES = {
    "eer": "EER (fraction)",
    "trials": "digest of its list",
    "cross_validated_cllr": "Cllr, cross-validated (bits)",
    "folds_of": "held out together",
    "lowest_llr": "lowest LLR",
    "highest_llr": "highest LLR",
}


def case_page(case: Case) -> str:
    """Return a case as HTML."""
    sections = []
    for number, one in enumerate(case.recordings, 1):
        tables = []
        if not one.result.error:
            tables.append(_pairs("Result", _result_rows(one.result)))
        if one.facts is not None:
            tables.append(_pairs("File", _file_rows(one.name, one.facts)))
        words = statements(one, case)
        drawn = (_time_figures(one, case), (), "", (), True)
        sections.append(Section(f"recording-{number}", _name(one), words, tables, *drawn))
    question = Section("question", "Question", list(propositions(case.calibration).values()))
    cannot_say = Items("What these results cannot say", "", limits(case))
    sections += [
        question,
        _calibration_section(case.calibration),
        _validation_section(case.validation),
        Section("limits", "Limits", lists=[cannot_say]),
        _software_section(case),
    ]
    known = {"Reference": case.reference, "Examiner": case.examiner, "Date": case.date}
    facts = [f"{name}: {value}" for name, value in known.items() if value]
    title = case.title or f"Examination of {_names(case)}"
    return document_page(Document(title, _verdict(case), sections, facts=facts))


def _names(case: Case) -> str:
    one, *others = case.recordings
    return f"{len(case.recordings):,} recordings" if others else _name(one)


def _verdict(case: Case) -> Verdict:
    """Return the conclusion for a single recording, and the verdicts of several."""
    one, *others = case.recordings
    cannot = " ".join([limits(case)[0], "A score is no proof: the section on limits says why."])
    if others:
        kinds = Counter(each.result.verdict or "not judged" for each in case.recordings)
        sentence = f"{_names(case)}: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}."
        network = f"the network {Path(case.network).name}"
        lead = [f"They were compared with two propositions by {network}; each has a section."]
        return Verdict(sentence, lead=lead, cannot=cannot)
    brief = statements(one, case, is_brief=True)
    # The verdict itself is among the numbers; it may be all there is to say.
    sentence, *lead = [words for words in brief if not words.startswith("Verdict:")] or brief
    # A number is not broken off its minus sign.
    sentence = sentence.replace(" -", "\u00a0−")
    result = one.result
    numbers = {"Verdict": result.verdict or "none"}
    for name, value in (("Score", result.score), ("Threshold", case.heading.threshold)):
        if value is not None:
            is_llr = name == "Score" and result.llr is not None
            numbers["LLR" if is_llr else name] = f"{value:.2f}".replace("-", "−")
    numbers["Recording"] = _name(one)
    return Verdict(sentence, _CLASSES.get(result.verdict or "", ""), numbers, lead, cannot)


def _name(one: Examined) -> str:
    return printable(Path(one.name).name, one_line=True)


def _pairs(caption: str, values: Mapping[str, str]) -> PageTable:
    rows = []
    for name, text in values.items():
        # Tags and names come from files, with whatever control characters these hold.
        rows.append([Cell(name), Cell(printable(text, one_line=True))])
    return PageTable(caption, [Cell(""), Cell("")], rows, "pairs")


def _result_rows(result: Scored) -> dict[str, str]:
    """Return what is known of a score; what columns state is at their places."""
    score = {"Score of the network": result.raw, "Threshold": result.threshold}
    numbers = {
        name: ABSENT if number is None else four_digits(number) for name, number in score.items()
    }
    heard = f"{result.seconds_scored or 0:.2f} of {result.seconds or 0:.2f}"
    placed = [(40, numbers), (70, {"Verdict": result.verdict or "none", "Seconds scored": heard})]
    for key, value in result.values.items():
        column = result.columns[key]
        placed.append((column.place[1], column.facts(value, result.threshold)))
    return join_placed(placed)


def _file_rows(path: str, facts: FileFacts) -> dict[str, str]:
    tags = "; ".join(f"{name}: {text}" for name, text in facts.tags.items())
    size = "not known"
    if facts.size is not None:
        size = f"{facts.size:,} bytes ({facts.size / _KB:,.1f} kB)"
    return {
        "Path": path,
        "SHA-256": facts.sha256,
        "Size": size,
        "Format": facts.format,
        "Codec": facts.codec,
        "Channels": str(facts.channels),
        "Sampling rate": f"{facts.sample_rate:,} Hz",
        "Duration": f"{facts.seconds:.3f} s",
        "Tags": tags or "none",
    }


def _time_figures(one: Examined, case: Case) -> list[Figure]:
    if one.outline is None or not one.windows:
        return []
    kind = "LLR" if case.heading.kind == "llr" else "score"
    end_s = max(window.end_s for window in one.windows)
    window_s, hop_s = case.window
    # Marked parts are below the threshold for windows, if there is one.
    searched = one.result.searched
    threshold = searched.threshold if searched else case.heading.threshold
    scores = _scores_panel(one.windows, threshold, kind, end_s)
    text = (
        f"The waveform, and the {kind} of windows of {window_s:.4g} s every {hop_s:.4g} s, each "
        "scored as a recording by itself and drawn over its own time. A window is shorter than "
        "the recording and makes errors more often."
    )
    panels = [_waveform_panel(one, one.outline, end_s, scores), scores]
    return [Figure("windows", "Over time", text, panels, css="canvas")]


def _waveform_panel(one: Examined, outline: Outline, end_s: float, below: Panel) -> Panel:
    """Return the waveform with its spoofed parts marked, above the panel `below`."""
    # Not 0 for a silent recording, since an axis needs a length.
    peak = max(0.01, *(abs(value) for value in (*outline.low, *outline.high)))
    points: list[float] = []
    for index, high in enumerate(outline.high):
        points += [index * outline.part_s, high]
    # Back along the lowest samples: one closed area.
    for index in reversed(range(len(outline.low))):
        points += [index * outline.part_s, outline.low[index]]
    lines = [Line(points, css="sound", is_area=True)]
    for part in one.result.parts:
        start_s, stop_s = part.start_s, part.end_s
        corners = [start_s, -peak, stop_s, -peak, stop_s, peak, start_s, peak]
        lines.append(Line(corners, css="part", is_area=True))
    # As wide as the values below, so that both panels have aligned times.
    width = max(map(len, map(below.y.text, below.y.ticks)), default=1)
    return Panel(
        time_axis(end_s, ""),
        Axis(-peak, peak, [0], "Waveform", text=lambda _: "0".rjust(width, _DIGIT_SPACE)),
        _WIDTH,
        _WAVEFORM_HEIGHT,
        css="waveform",
        description=f"Waveform of {_name(one)}, {end_s:.1f} seconds, peak {peak:.2f} of full scale",
        lines=lines,
    )


def _scores_panel(
    windows: tuple[WindowScore, ...], threshold: float | None, kind: str, end_s: float
) -> Panel:
    values = [window.score for window in windows]
    shown = values if threshold is None else [*values, threshold]
    # Room also where all scores are equal.
    room = 0.08 * (max(shown) - min(shown)) or 1.0
    low, high = min(shown) - room, max(shown) + room
    # For many windows, the line through their middles is enough.
    has_marks = len(windows) <= _MAX_MARKS
    middles: list[float] = []
    words = []
    lines = []
    for window in windows:
        middle = (window.start_s + window.end_s) / 2
        middles += [middle, window.score]
        if has_marks:
            words.append(f"{window.score:.2f}, {window.start_s:.1f} to {window.end_s:.1f} s")
            ends = [window.start_s, window.score, window.end_s, window.score]
            lines.append(Line(ends, css="interval"))
    lines.append(Line(middles, mark_words=words))
    if threshold is not None:
        lines.append(Line([0, threshold, end_s, threshold], 1, css="threshold"))
    lowest = min(windows, key=lambda window: window.score)
    return Panel(
        time_axis(end_s, "Time (minutes:seconds)"),
        Axis(low, high, nice_ticks(low, high, 5), kind),
        _WIDTH,
        _SCORES_HEIGHT,
        css="windows",
        description=f"{kind} over time: {len(windows)} windows from {min(values):.2f} to "
        f"{max(values):.2f}, the lowest at {lowest.start_s:.1f} to {lowest.end_s:.1f} s"
        + ("" if threshold is None else f"; threshold {threshold:.2f}"),
        lines=lines,
    )


def _calibration_section(calibration: Calibration | None) -> Section:
    if calibration is None:
        sentence = "The network is not calibrated: its scores are not likelihood ratios."
        return Section("calibration", "Calibration", [sentence])
    rows = {}
    for name, value in calibration.content().items():
        # Maps, models and bootstraps are for programs, and no reader could check them.
        if isinstance(value, str | int | float):
            label = _ENTRIES.get(name, name.replace("_", " "))
            rows[label] = f"{value:.6g}" if isinstance(value, float) else str(value)
    origin = calibration.describe_origin() or "calibrated on a set that its file does not name"
    sentences = [f"{origin[0].upper()}{origin[1:]}.", f"Decision: {calibration.describe()}."]
    tables = [_pairs("Calibration of the network", rows)]
    return Section("calibration", "Calibration", sentences, tables)


def _rate(rate: Interval) -> str:
    return f"{100 * rate.value:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f} %)"


def _validation_section(validation: Validation | None) -> Section:
    if validation is None:
        return Section("validation", "Validation", ["No validation set was named."])
    sentences = [f"{validation.describe()}."]
    if validation.misses and validation.false_alarms:
        sentences.append(
            f"At the threshold of this case {_rate(validation.misses)} of the bona fide "
            f"recordings are called spoofs, and {_rate(validation.false_alarms)} of the spoofs "
            "bona fide (95 % intervals, of independent recordings)."
        )
    figures: list[Figure] = []
    if validation.quality and validation.tippett:
        tippett = validation.tippett
        sentences.append(f"{validation.quality.describe()}.")
        sentences.append(
            f"Misleading ratios: {100 * tippett.misleading_bona_fide:.1f} % of the bona fide "
            "recordings have a ratio below 1, and "
            f"{100 * tippett.misleading_spoof:.1f} % of the spoofs one above 1."
        )
        figures = llr_figures({validation.name: validation.curve})
    return Section("validation", "Validation", sentences, figures=figures, is_beside=True)


def _software_section(case: Case) -> Section:
    provenance = case.provenance
    rows = {
        "ASDF": provenance.asdf,
        "PyTorch": provenance.torch,
        **case.software,
        "Network": case.network,
        "SHA-256 of the network": provenance.network_sha256 or "unknown",
    }
    for name, value in provenance.options.items():
        rows[name.replace("_", " ")] = "none" if value is None else str(value)
    return Section(
        "software",
        "Software and command",
        ["The same files, network, program and command give the same page."],
        [_pairs("What made this page", rows)],
        code=case.command,
    )
