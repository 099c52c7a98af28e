"""Files that are often taken for a network, recognised by their first bytes."""

from __future__ import annotations

from pathlib import Path

# The usual mistake is the order of arguments: `score call.wav network.pt`.
_RECORDINGS = {
    b"RIFF": "RIFF, as WAV files begin",
    b"RF64": "RF64, a large WAV file",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"FORM": "AIFF",
    b".snd": "AU",
    b"caff": "CAF",
}
_WEB_PAGES = (b"<!doctype", b"<html", b"<?xml")
_START_BYTES = 64
# A clone without git-lfs has such texts of some hundred bytes instead of the files.
_POINTER = b"version https://git-lfs"


def other_kind(path: Path) -> str | None:
    """Return what a file is, if it is not a network but often mistaken for one."""
    with path.open("rb") as file:
        start = file.read(_START_BYTES)
    for magic, kind in _RECORDINGS.items():
        if start.startswith(magic):
            return f"a recording ({kind}), not a network; commands name the network first"
    if is_web_page(start):
        return "a web page, not a network; a server or a proxy sent it instead of the file"
    if start.startswith(_POINTER):
        return "a pointer of Git LFS, not a network; run git lfs pull where it came from"
    return None


def is_web_page(start: bytes) -> bool:
    """Whether a file that begins with these bytes is HTML."""
    # A byte order mark and blank lines may precede the first tag.
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGES)
