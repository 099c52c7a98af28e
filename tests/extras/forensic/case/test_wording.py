"""What a case says of a recording: of a part, of a ratio at a limit, and of the whole."""

import math
from dataclasses import dataclass
from pathlib import Path

from asdf.extras.forensic.case.examining import Case, Examined
from asdf.extras.forensic.case.wording import statements
from asdf.extras.forensic.support import SupportColumn, Supported
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import CANNOT_TELL
from asdf.scoring.document import Heading
from asdf.scoring.parts import PartColumn, PartSearch
from asdf.scoring.scored import Scored, WindowScore

DECISION = "bona fide from an LLR of 0 on"
# Windows of 4 s every 2 s: a part from 18 to 24 s at the lower limit, and one window alone.
WINDOWS = [WindowScore(2.0 * i, 2.0 * i + 4, 3.0) for i in range(20)]
WINDOWS[9] = WindowScore(18.0, 22.0, -3.36, unbounded_llr=-4.0)
WINDOWS[10] = WindowScore(20.0, 24.0, -1.0)
WINDOWS[14] = WindowScore(28.0, 32.0, -0.5)


@dataclass
class Told:
    """What a case knows besides its recordings, as far as statements need it."""

    heading: Heading


CASE: Case = Told(Heading("", "net.pt", "llr", 0.0, DECISION))  # type: ignore[assignment]


def told(
    ratio: Supported,
    windows: list[WindowScore],
    verdict: str,
    *,
    brief: bool,
    calibration: Calibration | None = None,
    remark: str = "",
) -> list[str]:
    found = PartSearch(64000, 32000, 0.0, calibration=calibration).find_parts(windows)
    values = {"parts": found, "llr": ratio}
    columns = {"parts": PartColumn, "llr": SupportColumn}
    judged = {"verdict": verdict, "threshold": 0.0, "remark": remark}
    result = Scored(0, Path("call.wav"), ratio.llr, **judged, values=values, columns=columns)
    return statements(Examined("call.wav", None, result), CASE, is_brief=brief)


def test_a_mixed_recording_is_not_said_to_be_genuine() -> None:
    ratio = Supported(math.log(26), 4.1, (2.0, math.log(26)), "moderate support for bona fide")
    words = told(ratio, WINDOWS, "mixed", brief=True)
    assert words == [
        "From 18.0 to 24.0 s (LLR -3.36, at the limit of what the set supports) it scores like a "
        "spoof.",
        "The whole recording has an LLR of 3.26; this says nothing about this part.",
        "Verdict: mixed.",
    ]
    text = " ".join(told(ratio, WINDOWS, "mixed", brief=False))
    assert "times as likely" not in text and "support for" not in text
    assert "1 single window below the threshold of windows, the lowest from 28.0 to 32.0 s" in text
    assert "Verdict: mixed (bona fide from an LLR of 0 on)." in text


def test_a_ratio_at_a_limit_is_a_least_one() -> None:
    high = Supported(math.log(26), 4.1, (math.log(10), math.log(26)), "moderate support")
    text = " ".join(told(high, WINDOWS[:8], "bona fide", brief=False))
    assert "Such a score is at least 26 times as likely" in text
    assert "would give a log10 ratio of at least +1.00 (95 % interval)" in text
    low = Supported(-math.log(26), -4.1, (-math.log(26), -math.log(10)), "moderate support")
    text = " ".join(told(low, WINDOWS[:8], "spoof", brief=False))
    assert "at least 26 times as likely if the recording is a spoof" in text
    assert "would give a log10 ratio of at most −1.00 (95 % interval)" in text
    within = Supported(math.log(20), None, (math.log(10), math.log(26)), "moderate support")
    text = " ".join(told(within, WINDOWS[:8], "bona fide", brief=False))
    assert "Such a score is 20 times as likely" in text
    assert "a log10 ratio between +1.00 and +1.41" in text


def test_an_undecided_recording_has_no_words_that_could_be_quoted() -> None:
    weak = "weak support for spoof rather than bona fide"
    ratio = Supported(-0.9, None, (-2.0, 0.5), weak, is_clear=False)
    assert told(ratio, WINDOWS[:8], "undecided", brief=True) == [CANNOT_TELL, "Verdict: undecided."]
    words = told(ratio, WINDOWS[:8], "undecided", brief=False)
    assert words[2] == CANNOT_TELL and weak not in " ".join(words)
    # The numbers stand below it.
    assert "log10 ratio between −0.87 and +0.22 (95 % interval)" in " ".join(words)
    assert "Verdict: undecided (bona fide from an LLR of 0 on)." in words
    # A part that is no clearer does not sound spoofed.
    unclear = [*WINDOWS[:9], WindowScore(18.0, 22.0, -0.4), WindowScore(20.0, 24.0, -0.5)]
    learnt = Calibration(1.0, 0.0, 0.0)
    sure = Supported(3.0, None, (2.0, 4.0), "moderate support for bona fide")
    words = told(sure, unclear, "undecided", brief=True, calibration=learnt)
    assert words == [
        "From 18.0 to 24.0 s (LLR -0.50) it scores below the threshold, but not clearly like a "
        "spoof.",
        "Verdict: undecided.",
    ]
    # Too little speech is no matter of the ratio.
    remark = "speech in only 3 of 20 windows"
    words = told(sure, WINDOWS[:8], "undecided", brief=True, remark=remark)
    assert words == ["Verdict: undecided.", "Speech in only 3 of 20 windows."]
