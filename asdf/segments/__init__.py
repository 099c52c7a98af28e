"""Spoofed parts of recordings: segments in seconds, labels of frames, and common files."""

# ruff: noqa: F401 (names for others)

from asdf.segments.label_arrays import read_label_arrays
from asdf.segments.labels_per_frame import (
    frame_count,
    frame_labels,
    labels_of_mask,
    sample_mask,
    segments_from_scores,
)
from asdf.segments.part_files import Timed, parse_rttm, parse_text, read_rttm, read_text, write_rttm
from asdf.segments.reference import Reference, read_reference
from asdf.segments.scored_frames import (
    FrameTable,
    ScoredFrames,
    frame_table,
    read_frame_scores,
    read_frame_table,
    write_frame_table,
)
from asdf.segments.speaker_turns import (
    MIN_STRETCH_S,
    Speaker,
    parse_speakers,
    read_speakers,
    speakers_alone,
)
from asdf.segments.spoofed_seconds import (
    COLUMN,
    UNKNOWN,
    WHOLE,
    Segment,
    clipped,
    format_spoofed,
    merged,
    parse_spoofed,
    spoofed_parts,
    spoofed_parts_of,
)
