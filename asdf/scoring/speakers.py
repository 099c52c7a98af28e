"""A verdict per speaker of a conversation, from the stretches in which nobody else speaks.

Invariant: a speaker is scored like a recording that joins these stretches, with the same windows,
calibration and threshold as any recording; times in results are times in the conversation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from asdf.audio.speech import SpeechLength
from asdf.errors import AsdfError
from asdf.scoring.columns import ScoreColumn
from asdf.scoring.pipeline import NO_DETECTION
from asdf.scoring.recordings import Recording
from asdf.scoring.scored import Scored, WindowScore
from asdf.segments import MIN_STRETCH_S, Segment, Speaker, read_speakers
from asdf.settings.sections import Audio, SpeechActivity
from asdf.text import AnyPath, printable, quoted_and_more
from asdf.trials.trial_list import bare_name

MIN_SPEAKER_S = 2.0
"""Minimum speech of a single speaker for a verdict; less is scored, but not judged."""

SPEAKERS_NOTE = (
    "one score per speaker, of the stretches in which nobody else speaks, joined; stretches under "
    f"{MIN_STRETCH_S:g} s are left out, and less than {MIN_SPEAKER_S:g} s in all gets no verdict"
)
"""Description of the scores of speakers, in words."""

# Turns and lengths of recordings are rounded.
_TOLERANCE_S = 0.1
_SHOWN = 5


@dataclass(frozen=True)
class SpeakerRecording(Recording):
    """The stretches of a recording in which only one speaker speaks, as a recording.

    Attributes:
        whole: Recording of the conversation.
        speaker: Speaker, with the stretches.
    """

    whole: Recording
    speaker: Speaker

    def heard_as(self, audio: Audio) -> SpeakerRecording:
        return replace(self, audio=audio, whole=self.whole.heard_as(audio))

    def differing(self) -> tuple[str, Sequence[Recording]]:
        why, sides = self.whole.differing()
        return why, [replace(self, name=side.name, path=side.path, whole=side) for side in sides]

    def measure(self, sad: SpeechActivity) -> SpeechLength:
        if sad.mode != NO_DETECTION.mode:
            return super().measure(sad)
        # Without reading it.
        total = sum(end - start for start, end in self._spans())
        return SpeechLength(total, total)

    def read_in_blocks(self, window: int) -> Iterator[np.ndarray]:
        spans = self._spans()
        start = 0
        for block in self.whole.read_in_blocks(window):
            end = start + len(block)
            for first, last in spans:
                # max: negative bounds would count from the end of the block.
                part = block[max(first - start, 0) : max(last - start, 0)]
                if len(part):
                    yield part
            start = end

    def read_whole(self) -> np.ndarray:
        return np.concatenate(list(self.read_in_blocks(self.audio.sample_rate)))

    def _spans(self) -> list[tuple[int, int]]:
        """Return the stretches in samples.

        Raises:
            AsdfError: the stretches are not of this recording, or the speaker never speaks alone.
        """
        samples = self.whole.measure(NO_DETECTION).recording
        end_s = samples / self.audio.sample_rate
        if self.speaker.end_s > end_s + _TOLERANCE_S:
            raise AsdfError(
                f"{self.name}: a turn ends at {self.speaker.end_s:.2f} s, but the recording at "
                f"{end_s:.2f} s."
            )
        spans = []
        for segment in self.speaker.alone:
            first = round(segment.start_s * self.audio.sample_rate)
            # A turn may end within the tolerance after the recording.
            last = min(round(segment.end_s * self.audio.sample_rate), samples)
            if first < last:
                spans.append((first, last))
        if not spans:
            raise AsdfError(
                f"{self.name}: this speaker never speaks alone for {MIN_STRETCH_S:g} s."
            )
        return spans


@dataclass(frozen=True, eq=False)
class SpeakerScored:
    """The score of a speaker of a conversation.

    Attributes:
        speaker: Speaker, with the scored stretches.
        result: Score of these stretches, with times in the conversation.
    """

    speaker: Speaker
    result: Scored

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return self.result.entry()


class SpeakerColumn(ScoreColumn):
    """The speaker whose stretches were scored, for recordings that are scored by speaker."""

    key = "speaker"
    kind = Speaker
    cells = ("speaker", "overlapped_s")
    place = (60, 58)
    of_speakers = True
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "speaker": (str, "Name of the speaker in the RTTM."),
        "alone": (list[tuple[float, float]], "Stretches in which nobody else speaks, in seconds."),
        "overlapped_s": (float, "Seconds of the speaker's turns with others' speech."),
    }

    def heading(self) -> dict[str, Any]:
        return {"of_speakers": True}

    @classmethod
    def row(cls, value: Speaker) -> tuple[Any, ...]:
        return value.name, value.overlapped_s

    @classmethod
    def placed(cls, value: Speaker) -> list[tuple[int, dict[str, Any]]]:
        alone = [list(segment) for segment in value.alone]
        times = {"alone": alone, "overlapped_s": round(value.overlapped_s, 6)}
        return [(5, {"speaker": value.name}), (80, times)]

    @classmethod
    def title(cls, value: Speaker) -> str:
        return f" [{printable(value.name, one_line=True)}]"

    def restored(self, saved: Mapping[str, Any]) -> Speaker:
        return Speaker(**{**saved, "alone": tuple(Segment(*each) for each in saved["alone"])})


def find_speakers(turns: AnyPath, recording: AnyPath | None = None) -> list[Speaker]:
    """Return the speakers of a recording from an RTTM.

    Args:
        turns: Path of the RTTM, which names recordings without folder and suffix.
        recording: Path of the recording; None: the only one of the RTTM.

    Raises:
        AsdfError: it cannot be read, or has no turns of that recording.
    """
    return choose_speakers(read_speakers(turns), turns, recording)


def choose_speakers(
    known: Mapping[str, list[Speaker]], turns: AnyPath, recording: AnyPath | None = None
) -> list[Speaker]:
    """Return the speakers of a recording from those of an RTTM, as `find_speakers`."""
    if recording is None and len(known) == 1:
        return next(iter(known.values()))
    # An RTTM separates columns by spaces, so names contain none.
    name = "_".join(bare_name(os.fspath(recording or "")).split())
    if name not in known:
        raise AsdfError(
            f"{turns} has turns of {quoted_and_more(list(known), _SHOWN)}, not of {name!r}; column "
            "2 is the recording's name without folder and suffix."
        )
    return known[name]


def speaker_recordings(whole: Recording, speakers: Sequence[Speaker]) -> list[SpeakerRecording]:
    """Return one recording per speaker, of the stretches in which only this speaker speaks."""
    return [
        SpeakerRecording(
            index, f"{whole.name} [{speaker.name}]", whole.path, whole.audio, whole, speaker
        )
        for index, speaker in enumerate(speakers)
    ]


def conclude_speaker(result: Scored, speaker: Speaker) -> Scored:
    """Return the result of a speaker's stretches with times in the conversation.

    A result from less than `MIN_SPEAKER_S` is not judged.
    """
    columns: dict[str, type[ScoreColumn]] = {**result.columns, SpeakerColumn.key: SpeakerColumn}
    values = {**result.values, SpeakerColumn.key: speaker}
    if result.error:
        return replace(result, values=values, columns=columns)

    def move(window: WindowScore) -> WindowScore:
        start_s = _time_of(window.start_s, speaker, is_end=False)
        end_s = _time_of(window.end_s, speaker, is_end=True)
        return replace(window, start_s=start_s, end_s=end_s)

    values = {key: columns[key].moved(value, move) for key, value in values.items()}
    known: dict[str, Any] = {"values": values, "columns": columns}
    if result.lowest is not None:
        known["lowest"] = move(result.lowest)
    if result.judged and (result.seconds or 0.0) < MIN_SPEAKER_S:
        problem = (
            f"not judged: this speaker speaks alone for only {result.seconds or 0:.2f} s (under "
            f"{MIN_SPEAKER_S:g} s)"
        )
        remark = "; ".join(filter(None, [problem, result.remark]))
        known |= {"judged": False, "verdict": None, "remark": remark}
    return replace(result, **known)


def _time_of(seconds: float, speaker: Speaker, *, is_end: bool) -> float:
    """Convert a time in the joined stretches; at a join, return the end of the previous one."""
    passed_s = 0.0
    for start_s, end_s in speaker.alone:
        duration_s = end_s - start_s
        left_s = seconds - passed_s
        if left_s < duration_s or (is_end and left_s <= duration_s):
            return start_s + left_s
        passed_s += duration_s
    # Rounding may put a time just behind the last stretch.
    return speaker.alone[-1].end_s
