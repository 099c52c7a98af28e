"""The spoofed parts of recordings: segments in seconds, labels of frames, and the field's files."""

# ruff: noqa: F401 (names for others)

from asdf.segments.frame_scores import ScoredFrames, read_frame_scores
from asdf.segments.frame_table import (
    FrameTable,
    frame_table,
    read_frame_table,
    write_frame_table,
)
from asdf.segments.frames import (
    frame_count,
    frame_labels,
    labels_of_mask,
    sample_mask,
    segments_from_scores,
)
from asdf.segments.label_arrays import read_label_arrays
from asdf.segments.parts import (
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
from asdf.segments.reference import Reference, read_reference
from asdf.segments.rttm import parse_rttm, read_rttm, write_rttm
from asdf.segments.text import parse_text, read_text
from asdf.segments.timed import Timed
