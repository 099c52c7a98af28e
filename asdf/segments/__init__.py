"""Spoofed parts of recordings: segments in seconds, labels of frames, and common files."""

# ruff: noqa: F401 (names for others)

from asdf.segments.part_files import (
    MIN_STRETCH_S,
    Reference,
    Speaker,
    Timed,
    read_label_arrays,
    read_reference,
    read_rttm,
    read_speakers,
    read_text,
    speakers_alone,
    write_rttm,
)
from asdf.segments.scored_frames import (
    FrameTable,
    ScoredFrames,
    frame_table,
    read_frame_scores,
    read_frame_table,
    write_frame_table,
)
from asdf.segments.spoofed_seconds import (
    COLUMN,
    UNKNOWN,
    WHOLE,
    Segment,
    clipped,
    format_spoofed,
    frame_count,
    frame_labels,
    labels_of_mask,
    merged,
    parse_spoofed,
    segments_from_scores,
    spoofed_parts,
    spoofed_parts_of,
)
