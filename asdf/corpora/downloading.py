"""Downloads of corpora from Zenodo, which resume, and are verified with the record's checksums.

Invariant: a file gets its name only if its MD5 is that of the record; an archive is unpacked once,
only below its folder, as a whole, and over no file of another content.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shutil
import tarfile
import urllib.error
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from asdf.corpora.known_corpus import KnownCorpus
from asdf.errors import AsdfError
from asdf.runs.files import one_at_a_time, write_text
from asdf.runs.log import LOG, track
from asdf.text import printable, shorten

ZENODO = "https://zenodo.org"
_RECORD = re.compile(r"https?://zenodo\.org/records?/(\d+)")
_HUB = re.compile(r"https://huggingface\.co/datasets/([^/\s]+/[^/\s,]+)")
_PIECE = 1 << 20
_WITHIN_S = 60  # of silence; a whole download may take hours
_MEGABYTE = 1_000_000
# More than the description of any record; an endless answer must not fill the memory.
_MAX_ANSWER = 20_000_000
_ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_NOTE = ".unpacked"


@dataclass(frozen=True)
class RecordFile:
    """A file of a Zenodo record.

    Attributes:
        address: Address of its content.
        md5: MD5 in the record.
    """

    name: str
    size: int
    md5: str
    address: str


@dataclass(frozen=True)
class Record:
    """A Zenodo record.

    Attributes:
        licence: Licence, in Zenodo's terms.
    """

    address: str
    licence: str
    files: Sequence[RecordFile]


def records_of(corpus: KnownCorpus) -> list[str]:
    """Return the numbers of the records of a corpus; [] if it is distributed elsewhere."""
    # ADD 2022 and 2023 are several records each.
    return _RECORD.findall(corpus.homepage)


def hub_of(corpus: KnownCorpus) -> str:
    """Return the data set on the hub of a corpus; '' if it is distributed elsewhere."""
    match = _HUB.search(corpus.homepage)
    return match.group(1) if match else ""


def needs_request(corpus: KnownCorpus) -> bool:
    """Whether it is available only on request or after registration."""
    return corpus.licence.startswith(("on request", "on registration"))


def look_up_record(number: str) -> Record:
    """Request the files of a record from Zenodo.

    Raises:
        AsdfError: there is no response, or the record is not public.
    """
    address = f"{ZENODO}/api/records/{number}"
    # Imported here: it takes longer than all else that names a corpus.
    import urllib.request

    with _explained(address), urllib.request.urlopen(address, timeout=_WITHIN_S) as answer:
        text = answer.read(_MAX_ANSWER)
    try:
        content = json.loads(text)
        licence = content["metadata"].get("license") or {}
        files = []
        for entry in content["files"]:
            name, link = str(entry["key"]), str(entry["links"]["self"])
            kind, _, digest = str(entry["checksum"]).partition(":")
            # A folder or a leading dot could replace files elsewhere, or notes on what was
            # unpacked.
            is_plain = PurePosixPath(name).name == name and name.isprintable() and name[:1] != "."
            if not is_plain or "\\" in name:
                raise ValueError(f"a file is named {shorten(name)!r}")
            if kind != "md5" or urlsplit(link).netloc != urlsplit(ZENODO).netloc:
                raise ValueError(f"the checksum or the address of {name} is of an unknown kind")
            files.append(RecordFile(name, int(entry["size"]), digest, link))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AsdfError(
            f"{address}: this is not a record of files ({error!r}). If its files are restricted, "
            f"request them on {ZENODO}/records/{number}."
        ) from None
    known = licence.get("id", "") if isinstance(licence, dict) else ""
    return Record(f"{ZENODO}/records/{number}", str(known), files)


def download_record(record: Record, folder: Path) -> list[Path]:
    """Download the files of a record to a folder, and unpack compressed archives there.

    Complete files are not downloaded again; an uncompressed tar is not unpacked.

    Returns:
        Paths of the unpacked archives, which may be removed.

    Raises:
        AsdfError: a file cannot be downloaded or is damaged, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unpacked = []
    for file in record.files:
        path = folder / file.name
        # Before the download: the user may have removed the archive after it was unpacked.
        if _was_unpacked(path, file.md5):
            LOG.info("%s: already unpacked", file.name)
            continue
        # Two processes would append to the same partial file.
        with one_at_a_time(path):
            if path.is_file() and path.stat().st_size == file.size and _md5(path) == file.md5:
                LOG.info("%s: already downloaded", file.name)
            else:
                part = path.with_name(f"{path.name}.part")
                _receive(file, part)
                if part.stat().st_size != file.size or _md5(part) != file.md5:
                    # A complete part is not fetched again, so a damaged one would stay damaged.
                    part.unlink()
                    raise AsdfError(
                        f"{file.address} arrived damaged: its MD5 is not {file.md5}, the one that "
                        "the record states. Run the command again; if that does not help, a proxy "
                        "likely changes it."
                    )
                part.replace(path)
        if unpack_archive(path, file.md5):
            unpacked.append(path)
    return unpacked


def unpack_archive(path: Path, digest: str) -> bool:
    """Unpack a compressed archive in place, unless done; return whether it is an archive.

    Args:
        digest: Digest of its content, by which later calls know that it was unpacked.

    Raises:
        AsdfError: it is damaged or encrypted, or a member would be elsewhere, is not a file or
            folder, or has the name of another file.
    """
    if not path.name.lower().endswith(_ARCHIVES) or _was_unpacked(path, digest):
        return False
    LOG.info("unpacking %s", path.name)
    unpacked = path.with_name(f".{path.name}.unpacking")
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        _extract(path, unpacked)
        # Only now: an archive that turns out to be damaged leaves nothing.
        files = [file for file in unpacked.rglob("*") if file.is_file()]
        targets = [path.parent / file.relative_to(unpacked) for file in files]
        for file, target in zip(files, targets, strict=True):
            if os.path.lexists(target) and not filecmp.cmp(file, target, shallow=False):
                raise AsdfError(
                    f"{path}: it has another file than yours of the name {target}, which is not "
                    "overwritten. Move yours away, and run the command again."
                )
        for file, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except AsdfError:
        raise
    except Exception as error:  # each kind of archive has its own
        raise AsdfError(
            f"{path}: it cannot be unpacked ({error}). Download it again if it is damaged, or "
            "unpack it yourself."
        ) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    # Written last, so that an interrupted unpacking is repeated.
    write_text(_note_of(path), f"{digest}\n")
    return True


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{_NOTE}")


def _was_unpacked(path: Path, digest: str) -> bool:
    note = _note_of(path)
    return note.is_file() and note.read_text(encoding="utf-8").strip() == digest


def _receive(file: RecordFile, part: Path) -> None:
    """Append to the partial file until it is complete, while each connection makes progress."""
    while True:
        arrived = part.stat().st_size if part.exists() else 0
        if arrived > file.size:
            part.unlink()
            arrived = 0
        if arrived == file.size and part.exists():
            return
        missing = file.size - arrived
        # Checked before hours of download, which would end on a full disk.
        if shutil.disk_usage(part.parent).free < missing:
            raise AsdfError(
                f"{part.parent}: the disk has no room for {file.name}, {missing / _MEGABYTE:,.0f} "
                "MB. Free some space, or name another folder; what was downloaded is used again."
            )
        LOG.info("fetching %s, %s MB", file.name, f"{missing / _MEGABYTE:,.1f}")
        import urllib.request

        request = urllib.request.Request(file.address)
        if arrived:
            request.add_header("Range", f"bytes={arrived}-")
        with (
            _explained(file.address),
            urllib.request.urlopen(request, timeout=_WITHIN_S) as answer,
            # A server without support for ranges sends everything again.
            part.open("ab" if arrived and answer.status == 206 else "wb") as out,
        ):
            total = -(-missing // _PIECE)
            for piece in track(_pieces(answer), total, f"fetching {file.name}", unit="MB"):
                out.write(piece)
        received = part.stat().st_size
        # Less, too: without ranges each answer begins anew, and might break somewhere for ever.
        if received <= arrived < file.size:
            raise AsdfError(
                f"{file.address}: the connection ended after {received:,} of {file.size:,} bytes. "
                "Run the command again: it continues from there."
            )


def _pieces(answer: IO[bytes]) -> Iterator[bytes]:
    from http.client import HTTPException

    while True:
        try:
            piece = answer.read(_PIECE)
        except (OSError, ValueError, HTTPException) as error:
            # Not an error yet: what arrived is kept, and the next request continues it.
            LOG.warning("the connection was lost: %s", error)
            return
        if not piece:
            return
        yield piece


def _md5(path: Path) -> str:
    # OpenSSL in FIPS mode refuses MD5 for security; Zenodo announces no other digest.
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _extract(path: Path, folder: Path) -> None:
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            for member in track(members, len(members), f"unpacking {path.name}"):
                # extract() removes '..' and leading slashes; such an archive is refused instead.
                _refuse_outside(path, member.filename)
                archive.extract(member, folder)
        return
    with tarfile.open(path) as tar:
        for entry in tar:
            _refuse_outside(path, entry.name)
            # A link could lead outside of the folder, and so could members behind it.
            if not (entry.isfile() or entry.isdir()):
                raise AsdfError(f"{path}: {printable(entry.name)} is not a regular file.")
            # The filter also drops owners and special permission bits.
            tar.extract(entry, folder, filter="data")
        # A damaged header looks like the end; the checksum is behind the real one.
        while tar.fileobj is not None and tar.fileobj.read(_PIECE):
            pass


def _refuse_outside(path: Path, name: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise AsdfError(f"{path}: a member has the unsafe name {shorten(name)!r}: not unpacked.")


@contextmanager
def _explained(address: str) -> Iterator[None]:
    from http.client import HTTPException

    try:
        yield
    # Before URLError, of which it is a subclass.
    except urllib.error.HTTPError as error:
        raise AsdfError(
            f"{address}: the server refuses the request ({error.code} {error.reason}). See the "
            "page in a browser: its files may be restricted, or have moved."
        ) from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise AsdfError(
            f"{address} cannot be reached: {getattr(error, 'reason', error)}. Run the same command "
            "where there is internet access; it continues where it stopped."
        ) from None
