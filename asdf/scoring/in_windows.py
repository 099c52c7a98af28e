"""Long recordings scored in windows, some at a time.

Invariant: memory holds a few windows and what is read of the recording, however long it is, unless
speech activity detection needs all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from asdf.audio import cut_to_speech
from asdf.audio.speech import needs_whole_recording
from asdf.runs.progress import track
from asdf.scoring.frame_scores import FrameScores
from asdf.scoring.frames import FrameScoring, check_whole_time
from asdf.scoring.recordings import Recording
from asdf.scoring.scored import Score
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.scoring.whole_recording import Summary, Window, is_silent, tally_windows
from asdf.scoring.windows import Cut, count_windows, cut_windows
from asdf.settings.sections import SpeechActivity
from asdf.text import printable

# Windows that are in memory together, in samples: 64 MiB, so that batches are full and ten hours
# take no more than an hour.
_HELD_SAMPLES = 2**24

NO_DETECTION = SpeechActivity(mode="off")


@dataclass(frozen=True)
class WindowScoring:
    """How recordings are scored in windows.

    Attributes:
        sad: settings of speech activity detection.
        max_samples: Max number of samples of a window of a whole recording.
    """

    scorer: WaveformScorer
    sad: SpeechActivity
    max_samples: int
    summary: Summary

    def frame_scoring(self) -> FrameScoring:
        """Return how frames are scored.

        Raises:
            UsageError: the network has no frame-level head, or does not hear whole recordings.
        """
        check_whole_time(self.sad)
        return FrameScoring(self.scorer, self.max_samples)

    def score_frames(self, recording: Recording) -> FrameScores:
        """Score the frames of all of a recording, in windows that overlap. Raises as above."""
        scoring = self.frame_scoring()
        return scoring.of_blocks(recording.read_in_blocks(scoring.window))

    def score_whole(
        self,
        recording: Recording,
        embedding: bool = False,
        shown_samples: int | None = None,
        frames: bool = False,
    ) -> Score:
        """Score all of a recording.

        Args:
            frames: score its frames too.
            shown_samples: Samples of its speech, of which the scored part is shown; None: nothing
                is shown.

        Raises:
            AsdfError: it cannot be read, or its score is not a finite number.
        """
        length = self.max_samples
        total = None
        if needs_whole_recording(self.sad):
            # Whether a frame is speech depends on the loudest one, which may be the last. So speech
            # is detected before the windows, and in none of them again.
            waveform = recording.read_whole()
            total = len(waveform)
            blocks: Iterable[np.ndarray] = [cut_to_speech(waveform, self.sad)]
        else:
            blocks = recording.read_in_blocks(length)
        windows = self.score_windows(
            cut_windows(blocks, length, length), length, NO_DETECTION, embedding
        )
        if shown_samples is not None:
            count = count_windows(shown_samples, length, length)
            windows = track_windows(windows, recording, count)
        tally = tally_windows(list(windows))
        framed = self.score_frames(recording) if frames else None
        return self.summary.describe_whole(tally, total, framed)

    def score_windows(
        self, cut: Iterator[Cut], length: int, sad: SpeechActivity, embedding: bool = False
    ) -> Iterator[Window]:
        """Score windows of up to `length` samples, some at a time.

        The network hears what `sad` leaves of each by itself.
        """
        together = max(1, _HELD_SAMPLES // length)
        while group := list(islice(cut, together)):
            heard = [cut_to_speech(window.waveform, sad) for window in group]
            output = self.scorer.score_waveforms(heard, embedding)
            for row, window in enumerate(group):
                end = window.start + len(window.waveform)
                score = float(output.scores[row])
                silent = is_silent(window.waveform)
                yield Window(
                    window.start, end, score, silent, output.embedding(row), output.source(row)
                )


def track_windows(windows: Iterator[Window], recording: Recording, count: int) -> Iterator[Window]:
    """Show how far the windows of a recording are: a bar on a terminal, else lines in the log."""
    name = Path(recording.name).name
    return track(windows, count, f"scoring {printable(name)}", unit="windows")
