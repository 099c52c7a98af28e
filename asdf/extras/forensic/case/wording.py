"""The sentences of a case: propositions, meaning of a ratio, limitations; and the case as JSON.

Invariant: page, JSON and every recording have the same sentences; none claims more than its number,
and a network without a calibration gets no statement on likelihoods. JSON has every number of the
page, with all digits.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from asdf.extras.forensic.case.examining import Case, Examined
from asdf.metrics.calibration import Calibration
from asdf.metrics.llr_maps import log10_llr
from asdf.scoring.columns import CANNOT_TELL, UNDECIDED
from asdf.scoring.parts import worst_first
from asdf.scoring.scored import MIXED, Scored
from asdf.tables.renderers import as_json
from asdf.text import count_of

_FEW = 100
# Larger ratios are integers with thousands separators.
_WHOLE = 10

_ALWAYS = (
    "Unknown methods: a detector recognises traces of the methods that it was trained on. A newer "
    "method may leave no trace that it knows, and bona fide is the absence of known traces.",
    "Other channels: compression, noise, music, messengers and telephones erase such traces, or "
    "look like them.",
    "Who speaks: bona fide means that a human being spoke, not which one; an impersonator is bona "
    "fide.",
    "The words: a cut in the right place is not synthesis. Scores of windows show where a score "
    "falls; they do not prove where a recording was edited.",
    "The probability that a recording is a spoof: for that, the ratio has to be combined with "
    "what was known before the analysis, which a network cannot know.",
)


def propositions(calibration: Calibration | None) -> dict[str, str]:
    """Return both propositions and the relevant population, in words."""
    h1 = "H1: the recording is bona fide: a human being spoke what is heard."
    h2 = "H2: the recording is a spoof: what is heard was synthesised, converted or replayed."
    if calibration is None:
        population = (
            "Relevant population: none. The network is not calibrated, so its scores rank "
            "recordings but are not likelihood ratios."
        )
    else:
        origin = calibration.describe_origin()
        known = origin or "a set that its file does not name"
        population = (
            "Relevant population: recordings like those that the network was calibrated on, under "
            f"both propositions ({known.removeprefix('calibrated on ')})."
        )
    return {"h1": h1, "h2": h2, "population": population}


def statements(one: Examined, case: Case, *, is_brief: bool = False) -> list[str]:
    """Return the statements on a recording, as sentences.

    Args:
        is_brief: Whether to omit explanations, as at the top of a page that has them below.
    """
    result = one.result
    if result.error:
        return [f"Not scored: {result.error}"]
    score = result.score or 0.0
    # First, because a part must not be mentioned after a ratio that says the opposite.
    sentences = _part_sentences(result)
    if is_brief:
        sentences = sentences[:1] if result.parts else []
    if result.verdict == MIXED and result.parts:
        # What holds for the whole is quoted, and read as if it held for the parts.
        what = "LLR" if result.llr is not None else "score"
        sentences.insert(
            1,
            f"The whole recording has {'an LLR' if what == 'LLR' else 'a score'} of {score:.2f}; "
            f"this says nothing about {'these parts' if len(result.parts) > 1 else 'this part'}.",
        )
        decision = "" if is_brief else f" ({case.heading.decision})"
        remark = [_sentence(result.remark)] if result.remark and not is_brief else []
        return [*sentences, f"Verdict: {result.verdict}{decision}.", *remark]
    if result.is_doubted:
        sentences.append(_sentence(result.remark))
    sentences += _score_sentences(result, score, is_brief)
    if result.verdict:
        decision = "" if is_brief else f" ({case.heading.decision})"
        sentences.append(f"Verdict: {result.verdict}{decision}.")
    # Otherwise, the remark was stated above.
    if result.judged and result.remark and not result.is_doubted:
        sentences.append(_sentence(result.remark))
    return sentences


def _score_sentences(result: Scored, score: float, is_brief: bool) -> list[str]:
    if not result.judged:
        return [f"{_sentence(result.remark)} Its score is not meaningful."]
    if result.llr is None:
        return [
            f"The score is {score:.4f}; higher is more bona fide. It is not a likelihood ratio: "
            "the network is not calibrated."
        ]
    llr, at_limit = result.llr, result.unbounded_llr is not None
    more, less = "bona fide (H1)", "a spoof (H2)"
    if llr < 0:
        more, less = less, more
    sentences = [
        # The likelier proposition comes first, so that the ratio is one or more.
        f"Such a score is {'at least ' if at_limit else ''}{ratio_text(abs(llr))} times as likely "
        f"if the recording is {more} than if it is {less}."
    ]
    for key, value in result.values.items():
        sentences += result.columns[key].sentences(value, result.verdict)
    is_decided = result.verdict != UNDECIDED
    if is_brief:
        sentences = sentences[:2] if is_decided else []
    is_clear = is_decided or result.values["llr"].is_clear
    return sentences if is_clear else [CANNOT_TELL, *sentences]


def _part_sentences(result: Scored) -> list[str]:
    searched = result.searched
    if searched is None or not result.judged:
        return []
    what = "LLR" if result.llr is not None else "score"
    times = []
    for part in worst_first(result.parts):
        limit = "" if part.unbounded_llr is None else ", at the limit of what the set supports"
        span = f"from {part.start_s:.1f} to {part.end_s:.1f} s"
        times.append(f"{span} ({what} {part.score:.2f}{limit})")
    sentences = ["No part sounds spoofed by itself."]
    if times:
        times[0] = times[0].capitalize().replace("llr", "LLR")
        like = "like a spoof"
        if not result.values["parts"].is_clear:
            like = "below the threshold, but not clearly like a spoof"
        sentences = [f"{', '.join(times)} it scores {like}."]
    single = worst_first(result.single)
    if single:
        lowest = single[0]
        sentences.append(
            f"{count_of(len(single), 'single window')} below the threshold of windows, the lowest "
            f"from {lowest.start_s:.1f} to {lowest.end_s:.1f} s ({what} {lowest.score:.2f}): one "
            "window alone is no part."
        )
    # Each examined window is another chance of an error.
    return [*sentences, _sentence(searched.describe())]


def ratio_text(llr: float) -> str:
    """Return the ratio of a natural-log ratio from 0 on, with two significant digits."""
    log10 = log10_llr(llr)
    if log10 > 15:
        return f"10^{log10:.0f}"
    ratio = 10**log10
    # More than two digits would not be meaningful.
    rounded = float(f"{ratio:.2g}")
    return f"{rounded:,.0f}" if rounded >= _WHOLE else f"{rounded:g}"


def limits(case: Case) -> list[str]:
    """Return the limitations of these results, those specific to the case first."""
    special = [_sentence(case.remark)] if case.remark else []
    calibration = case.calibration
    if calibration is not None:
        if not calibration.describe_origin():
            special.append(
                "The network's file does not say what its calibration was learnt from: calibrate "
                "it again to know."
            )
        elif min(calibration.bona_fide or 0, calibration.spoof or 0) < _FEW:
            special.append(
                f"The calibration set has fewer than {_FEW} recordings of a class: large ratios "
                "are extrapolated from few."
            )
        if calibration.content().get("chose_network"):
            special.append(
                "The calibration set also chose the network: its ratios may be too far from 1."
            )
    validation = case.validation
    if validation is None:
        special.append(
            "No validation set was named (--validation): how often this network errs on "
            "recordings like these is not shown."
        )
        return [*special, *_ALWAYS]
    if validation.is_calibration_set:
        special.append(
            "The validation set is the calibration set: error rates and ratios look better on it "
            "than on other recordings."
        )
    if not validation.is_checked:
        special.append(
            "The scores of the validation set do not state their network, so it was not checked "
            "that they are from this network."
        )
    if min(validation.curve.bona_fide.size, validation.curve.spoof.size) < _FEW:
        special.append(
            f"The validation set has fewer than {_FEW} recordings of a class: its error rates are "
            "known only roughly, as the intervals show."
        )
    return [*special, *_ALWAYS]


def _sentence(text: str) -> str:
    """Return a remark as a sentence."""
    start = text[:1].upper() + text[1:]
    return start if start.endswith(".") else f"{start}."


def case_json(case: Case) -> str:
    """Return a case as JSON."""
    calibration = case.calibration
    made_by = {**case.provenance.entry(), "software": case.software, "command": case.command}
    # Null if not given: a clock would give other bytes each time.
    made_by["date"] = case.date or None
    recordings = []
    for one in case.recordings:
        entry = {**one.result.entry(), "raw": one.result.raw}
        if one.facts is not None:
            entry |= {"sha256": one.facts.sha256, "file": asdict(one.facts)}
        entry["windows"] = [window.entry() for window in one.windows]
        entry["statements"] = statements(one, case)
        recordings.append(entry)
    record: dict[str, Any] = {
        "case": {"title": case.title, "reference": case.reference, "examiner": case.examiner},
        **case.heading.entries(),
        "propositions": propositions(calibration),
        "calibration": None if calibration is None else calibration.public(),
        "validation": None if case.validation is None else case.validation.entry(),
        "recordings": recordings,
        "limits": limits(case),
        # In files of `score --json`, which have the same form, a list may not be finished.
        "complete": True,
        "made_by": made_by,
    }
    return as_json(record)
