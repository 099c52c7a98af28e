"""Speakers of conversations for `python -m asdf score --rttm`.

Invariant: before anything is scored, every recording has turns and a unique name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from asdf.commands.score_recordings import Recording, Recordings
from asdf.errors import AsdfError, UsageError
from asdf.scoring.recordings import as_recording
from asdf.scoring.speakers import SpeakerRecording, find_speakers, speaker_recordings
from asdf.segments import Speaker
from asdf.trials.trial_list import bare_name


class SpeakerRecordings(Recordings):
    """The speakers of recordings, each as a recording."""

    def __init__(self) -> None:
        super().__init__()
        self._sources: list[SpeakerRecording] = []

    def add_speakers(self, recording: Recording, speakers: Sequence[Speaker]) -> None:
        """Append the speakers of a recording."""
        whole = as_recording(str(recording.path))
        for each in speaker_recordings(whole, speakers):
            # A label is of the whole recording, in which some speakers may be genuine and others
            # not.
            self._append(str(recording.path), Recording(recording.path))
            self._sources.append(each)

    @property
    def sources(self) -> Sequence[SpeakerRecording]:
        """The speech of each speaker alone, for scoring."""
        return self._sources

    def speaker(self, index: int) -> Speaker | None:
        """Return the speaker at an index."""
        return self._sources[index].speaker

    def digest(self) -> str:
        """Digest paths, labels and stretches in their order."""
        digest = hashlib.sha256(super().digest().encode())
        for source in self._sources:
            # The same recording with other turns is other work.
            digest.update(repr(source.speaker).encode())
        return digest.hexdigest()


def with_speakers(recordings: Recordings, rttm: Path) -> Recordings:
    """Return the speakers of the recordings, whose turns are in an RTTM.

    Raises:
        UsageError: two recordings have the same name, or the turns cannot be read, or a recording
            has none.
    """
    names = [bare_name(path) for path in recordings.paths]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two recordings have the name {name}, by which an RTTM file identifies "
                "recordings. Score them in separate commands."
            )
    speakers = SpeakerRecordings()
    for recording in recordings:
        try:
            speakers.add_speakers(recording, find_speakers(rttm, recording.path))
        except AsdfError as error:
            raise UsageError(str(error)) from None
    return speakers
