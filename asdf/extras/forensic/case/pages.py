"""A case as a page, and the page as PDF: for screens, phones and paper.

Invariant: the same case gives the same bytes; everything that readers of a printout need is on the
page itself, without collapsed parts. A PDF has the same bytes on the same browser: its dates in the
file are those of the case, or the first day of 1970, and elements are numbered from 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.case.examining import Case, Examined
from asdf.extras.forensic.case.wording import limits, propositions, statements
from asdf.metrics.verbal_scale import log10_llr
from asdf.report import Document, Figure, Items, Section, document_page, llr_figures
from asdf.runs.files import atomic_write
from asdf.scoring.scored import WindowScore
from asdf.tables.page_cells import ABSENT, Cell, PageTable
from asdf.tables.panels import Axis, Line, Panel, nice_ticks
from asdf.text import printable

_WIDTH = 520
_WAVEFORM_HEIGHT = 130
_SCORES_HEIGHT = 230
# More marks would merge into a thick line.
_MAX_MARKS = 60
_TIME_TICKS = 6
_KB = 1000
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

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S = 120
_OPTIONS = (
    "--headless",
    # Chromium does not start as root with its sandbox; the page that it opens is our own.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A header would show the date of printing, and the footer a temporary path.
    "--no-pdf-header-footer",
)
# As in (D:20261126010101+00'00'); replacements of equal length leave all offsets unchanged.
_DATE = re.compile(rb"\(D:\d{14}\+00'00'\)")
_NO_DATE = "19700101000000"
# Names of the page's elements: a busy browser starts to count at another number.
_NODE = re.compile(rb"node(\d{8})")


def case_page(case: Case) -> str:
    """Return a case as HTML."""
    known = propositions(case.calibration)
    sections = [Section("question", "Question", list(known.values()))]
    for number, one in enumerate(case.recordings, 1):
        sections.append(_recording_section(one, number, case))
    sections.append(_calibration_section(case))
    sections.append(_validation_section(case))
    cannot_say = Items("What these results cannot say", "", limits(case))
    sections.append(Section("limits", "Limits", lists=[cannot_say]))
    sections.append(_software_section(case))
    headings = case.headings
    title = headings.title or f"Examination of {_count(len(case.recordings))}"
    facts = []
    for name, value in (
        ("Reference", headings.reference),
        ("Examiner", headings.examiner),
        ("Date", headings.date),
    ):
        if value:
            facts.append(f"{name}: {value}")
    document = Document(title, _lead(case), sections, facts=facts, styles=("case.css",))
    return document_page(document)


def _count(recordings: int) -> str:
    if recordings == 1:
        return "a recording"
    return f"{recordings:,} recordings"


def _lead(case: Case) -> list[str]:
    """Return the conclusion for each recording, or for all together if there are many."""
    if len(case.recordings) > 1:
        return [
            f"{len(case.recordings):,} recordings were compared with two propositions by the "
            f"network {Path(case.network).name}; each has a section of its own."
        ]
    (one,) = case.recordings
    name = _name(one)
    sentences = statements(one, case, is_brief=True)
    text = " ".join(sentences)
    return [f"{name}: {text}"]


def _name(one: Examined) -> str:
    name = Path(one.name).name
    return printable(name, one_line=True)


def _pairs(caption: str, values: Mapping[str, str]) -> PageTable:
    rows = []
    for name, text in values.items():
        # Tags and names come from files, with whatever control characters these hold.
        shown = printable(text, one_line=True)
        row = [Cell(name), Cell(shown)]
        rows.append(row)
    headings = [Cell(""), Cell("")]
    return PageTable(caption, headings, rows, "pairs")


def _recording_section(one: Examined, number: int, case: Case) -> Section:
    tables = []
    if not one.result.error:
        rows = _result_rows(one)
        tables.append(_pairs("Result", rows))
    if one.facts is not None:
        rows = _file_rows(one)
        tables.append(_pairs("File", rows))
    return Section(
        f"recording-{number}",
        _name(one),
        statements(one, case),
        tables,
        list(_time_figures(one, case)),
    )


def _result_rows(one: Examined) -> dict[str, str]:
    result = one.result
    rows = {}
    if result.llr is not None:
        rows["LLR (natural logarithm)"] = _number(result.llr)
        rows["log10 of the ratio"] = _number(log10_llr(result.llr))
        interval = result.entry().get("llr_interval")
        if interval:
            low, high = (_number(log10_llr(bound)) for bound in interval)
            rows["log10, 95 % interval"] = f"{low} to {high}"
    if result.distance is not None:
        distance = _number(result.distance)
        rows["Distance from the calibration set"] = f"{distance} (unlike it above 1)"
    rows["Score of the network"] = ABSENT
    if result.raw is not None:
        rows["Score of the network"] = _number(result.raw)
    rows["Threshold"] = ABSENT
    if result.threshold is not None:
        rows["Threshold"] = _number(result.threshold)
    searched = result.searched
    if searched is not None and searched.threshold != result.threshold:
        rows["Threshold of windows"] = _number(searched.threshold)
    rows["Verdict"] = result.verdict or "none"
    rows["Seconds scored"] = f"{result.seconds_scored or 0:.2f} of {result.seconds or 0:.2f}"
    return rows


def _file_rows(one: Examined) -> dict[str, str]:
    facts = one.facts
    assert facts is not None
    tags = "; ".join(f"{name}: {text}" for name, text in facts.tags.items())
    size = "not known"
    if facts.size is not None:
        size = f"{facts.size:,} bytes ({facts.size / _KB:,.1f} kB)"
    return {
        "Path": one.name,
        "SHA-256": facts.sha256,
        "Size": size,
        "Format": facts.format,
        "Codec": facts.codec,
        "Channels": str(facts.channels),
        "Sampling rate": f"{facts.sample_rate:,} Hz",
        "Duration": f"{facts.seconds:.3f} s",
        "Tags": tags or "none",
    }


def _number(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def _time_figures(one: Examined, case: Case) -> Iterator[Figure]:
    if one.outline is None or not one.windows:
        return
    kind = "score"
    if case.heading.kind == "llr":
        kind = "LLR"
    end_s = max(window.end_s for window in one.windows)
    window_s, hop_s = case.window
    # Marked parts are below the threshold for windows, if there is one.
    searched = one.result.searched
    threshold = searched.threshold if searched else case.heading.threshold
    scores = _scores_panel(one.windows, threshold, kind, end_s)
    yield Figure(
        "windows",
        "Over time",
        f"The waveform, and the {kind} of windows of {window_s:.4g} s every {hop_s:.4g} s, each "
        "scored as a recording by itself and drawn over its own time. A window is shorter than "
        "the recording and makes errors more often.",
        [_waveform_panel(one, end_s, scores), scores],
        css="canvas",
    )


def _waveform_panel(one: Examined, end_s: float, below: Panel) -> Panel:
    """Return the waveform with its spoofed parts marked, above the panel `below`."""
    outline = one.outline
    assert outline is not None
    # Not 0 for a silent recording, since an axis needs a length.
    peak = max(0.01, *(abs(value) for value in (*outline.low, *outline.high)))
    points: list[float] = []
    for index, high in enumerate(outline.high):
        points += [index * outline.part_s, high]
    # Back along the lowest samples: one closed area.
    for index in reversed(range(len(outline.low))):
        points += [index * outline.part_s, outline.low[index]]
    lines = [Line(points, is_area=True)]
    for part in one.result.parts:
        start_s, stop_s = part.start_s, part.end_s
        corners = [start_s, -peak, stop_s, -peak, stop_s, peak, start_s, peak]
        lines.append(Line(corners, 1, css="part", is_area=True))
    # As wide as the values below, so that both panels have aligned times.
    width = max(map(len, map(below.y.text, below.y.ticks)), default=1)
    return Panel(
        _time_axis(end_s, ""),
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
    low, high = min(shown), max(shown)
    # Room also where all scores are equal.
    room = 0.08 * (high - low) or 1.0
    middles: list[float] = []
    lines = []
    for window in windows:
        middles += [(window.start_s + window.end_s) / 2, window.score]
        # For many windows, the line through their middles is enough.
        if len(windows) <= _MAX_MARKS:
            ends = [window.start_s, window.score, window.end_s, window.score]
            lines.append(Line(ends, css="interval"))
    words = {}
    for window in windows:
        seconds = f"{window.start_s:.1f} to {window.end_s:.1f} s"
        words[(window.start_s + window.end_s) / 2] = f"{window.score:.2f}, {seconds}"
    has_marks = len(windows) <= _MAX_MARKS
    lines.append(Line(middles, mark_words=(lambda x, y: words[x]) if has_marks else None))
    if threshold is not None:
        lines.append(Line([0, threshold, end_s, threshold], 1, css="threshold"))
    lowest = min(windows, key=lambda window: window.score)
    return Panel(
        _time_axis(end_s, "Time (s)"),
        Axis(low - room, high + room, nice_ticks(low - room, high + room, 5), kind),
        _WIDTH,
        _SCORES_HEIGHT,
        css="windows",
        description=f"{kind} over time: {len(windows)} windows from {min(values):.2f} to "
        f"{max(values):.2f}, the lowest at {lowest.start_s:.1f} to {lowest.end_s:.1f} s"
        + ("" if threshold is None else f"; threshold {threshold:.2f}"),
        lines=lines,
    )


def _time_axis(end_s: float, label: str) -> Axis:
    return Axis(0, end_s, nice_ticks(0, end_s, _TIME_TICKS), label)


def _calibration_section(case: Case) -> Section:
    calibration = case.calibration
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
    sentence = f"{origin[0].upper()}{origin[1:]}."
    return Section(
        "calibration",
        "Calibration",
        [sentence, f"Decision: {calibration.describe()}."],
        [_pairs("Calibration of the network", rows)],
    )


def _validation_section(case: Case) -> Section:
    validation = case.validation
    if validation is None:
        sentence = "No validation set was named."
        return Section("validation", "Validation", [sentence])
    sentences = [f"{validation.describe()}."]
    if validation.misses and validation.false_alarms:
        sentences.append(
            f"At the threshold of this case {validation.misses.describe()} of the bona fide "
            f"recordings are called spoofs, and {validation.false_alarms.describe()} of the spoofs "
            "bona fide (95 % intervals, of independent recordings)."
        )
    figures: list[Figure] = []
    if validation.quality and validation.tippett:
        tippett = validation.tippett
        quality = validation.quality.describe()
        sentences.append(f"{quality}.")
        sentences.append(
            f"Misleading ratios: {100 * tippett.misleading_bona_fide:.1f} % of the bona fide "
            "recordings have a ratio below 1, and "
            f"{100 * tippett.misleading_spoof:.1f} % of the spoofs one above 1."
        )
        figures = llr_figures({validation.name: validation.curve})
    return Section("validation", "Validation", sentences, figures=figures)


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


def find_browser() -> str:
    """Return the path of Chromium or Chrome.

    Raises:
        UsageError: none is installed.
    """
    for name in _BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    raise UsageError(
        "a PDF is printed by Chromium or Chrome, but neither is on PATH: install one, or print "
        "the page of --output from any browser."
    )


def print_page(page: str, path: Path, date: str = "") -> None:
    """Print a page, as HTML, to a PDF.

    Args:
        date: Date of the file, as digits of year, month and day with separators; '': none.

    Raises:
        UsageError: no browser is installed.
        AsdfError: the browser fails, or the file cannot be written.
    """
    browser = find_browser()
    # By default, a browser writes a profile to the user's home, which may be read-only.
    with tempfile.TemporaryDirectory(prefix="asdf-case-", ignore_cleanup_errors=True) as folder:
        source = Path(folder) / "case.html"
        printed = Path(folder) / "case.pdf"
        source.write_text(page, encoding="utf-8")
        profile = f"--user-data-dir={folder}/profile"
        command = [browser, *_OPTIONS, profile, f"--print-to-pdf={printed}", source.as_uri()]
        try:
            ended = subprocess.run(
                command, capture_output=True, timeout=_TIMEOUT_S, check=False, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AsdfError(f"{browser} cannot print the page: {error}.") from None
        if not printed.is_file():
            last = (ended.stderr.strip().splitlines() or ["it gave no reason"])[-1]
            raise AsdfError(f"{browser} did not print the page: {last}.")
        content = printed.read_bytes()
    # Replaces the dates that the browser wrote.
    digits = re.sub(r"\D", "", date)[:8]
    stamp = f"{digits}000000" if len(digits) == 8 else _NO_DATE
    dated = _DATE.sub(f"(D:{stamp}+00'00')".encode(), content)
    with atomic_write(path, "wb") as file:
        file.write(count_nodes_from_one(dated))


def count_nodes_from_one(content: bytes) -> bytes:
    """Return a PDF with elements numbered from 1, in the same order and with equal length."""
    numbers = [int(number) for number in _NODE.findall(content)]
    before = min(numbers, default=1) - 1
    return _NODE.sub(lambda match: b"node%08d" % (int(match[1]) - before), content)
