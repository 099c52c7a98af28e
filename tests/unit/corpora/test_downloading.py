"""Corpora from a record of Zenodo, which a server on this machine stands for."""

import hashlib
import io
import json
import shutil
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.corpora import downloading
from asdf.corpora.downloading import download_record, look_up_record, unpack_archive
from asdf.errors import AsdfError


class Zenodo(ThreadingHTTPServer):
    """Files of one record; `breaks` has after how many bytes the next answers end."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.breaks: list[int] = []
        self.damaged = False
        self.in_chunks = False
        self.takes_ranges = True
        self.is_garbled = False
        self.asked: list[tuple[str, str | None]] = []
        self.names: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def record(self) -> bytes:
        files = []
        for name, content in self.files.items():
            files.append(
                {
                    "key": self.names.get(name, name),
                    "size": len(content),
                    "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
                    "links": {"self": f"{self.url}/files/{name}"},
                }
            )
        return json.dumps({"metadata": {"license": {"id": "cc-by-4.0"}}, "files": files}).encode()


class Handler(BaseHTTPRequestHandler):
    server: Zenodo

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        if self.server.is_garbled:
            self.wfile.write(b"no HTTP\r\n\r\n")
            return
        if self.path.startswith("/api/records/"):
            self.answer(200, self.server.record())
            return
        content = self.server.files.get(self.path.removeprefix("/files/"))
        if content is None:
            self.send_error(404)
            return
        if self.server.damaged:
            content = bytes(len(content))
        requested = self.headers.get("Range") if self.server.takes_ranges else None
        first = int((requested or "bytes=0-")[6:-1])
        body = content[first:]
        if self.server.in_chunks:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            # A chunk that ends before its length.
            self.wfile.write(f"{len(body):x}\r\n".encode() + body[:1000])
            return
        length = len(body)
        if self.server.breaks:
            body = body[: self.server.breaks.pop(0)]
        self.answer(206 if first else 200, body, length)

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def recording() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(800), 16000, format="WAV")
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(*members: tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return file.getvalue()


@pytest.fixture
def zenodo(monkeypatch: pytest.MonkeyPatch):
    odss = zipped(
        **{"odss/natural/vctk/p1/a.wav": recording(), "odss/vits/vctk/p1/b.wav": recording()}
    )
    with Zenodo({"odss.zip": odss, "README.txt": b"read me"}) as server:
        monkeypatch.setattr(downloading, "ZENODO", server.url)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()


def test_a_corpus_is_downloaded_unpacked_and_counted(zenodo, tmp_path, capsys):
    status = main(["corpora", "odss", str(tmp_path), "--download"])
    out, err = capsys.readouterr()
    assert status == 0 and "trials       2: 1 bona fide, 1 spoof" in out and "all there" in out
    assert "2 files, 0.00 GB, licence cc-by-4.0" in err and "odss.zip is unpacked" in err
    assert (tmp_path / "ODSS/README.txt").read_bytes() == b"read me"
    # A second time nothing is fetched, also without the archive.
    (tmp_path / "ODSS/odss.zip").unlink()
    zenodo.asked.clear()
    assert main(["corpora", "odss", str(tmp_path), "--download"]) == 0
    assert zenodo.asked == [("/api/records/8370669", None)]


def test_a_broken_connection_goes_on_where_it_ended(zenodo, tmp_path):
    zenodo.files = {"a.tar": bytes(range(256)) * 4000}
    zenodo.breaks = [300_000, 0]
    with pytest.raises(AsdfError, match="the connection ended after 300,000 of 1,024,000 bytes"):
        download_record(look_up_record("1"), tmp_path)
    assert (tmp_path / "a.tar.part").stat().st_size == 300_000
    zenodo.breaks = [100_000]
    assert download_record(look_up_record("1"), tmp_path) == []
    assert (tmp_path / "a.tar").read_bytes() == zenodo.files["a.tar"]
    ranges = [part for path, part in zenodo.asked if path == "/files/a.tar"]
    assert ranges == [None, "bytes=300000-", "bytes=300000-", "bytes=400000-"]


def test_a_server_that_begins_anew_and_breaks_earlier_is_not_asked_for_ever(zenodo, tmp_path):
    zenodo.files = {"a.tar": bytes(range(256)) * 4000}
    zenodo.takes_ranges = False
    # Each answer begins with the first byte, and the third gets less far than the second.
    zenodo.breaks = [100_000, 200_000, 150_000, 250_000]
    with pytest.raises(AsdfError, match="the connection ended after 150,000 of 1,024,000 bytes"):
        download_record(look_up_record("1"), tmp_path)
    assert zenodo.breaks == [250_000]


def test_an_answer_that_breaks_the_protocol_is_one_message(zenodo, tmp_path):
    zenodo.files = {"a.tar": bytes(range(256)) * 4000}
    record = look_up_record("1")
    zenodo.in_chunks = True
    with pytest.raises(AsdfError, match="the connection ended after 0 of 1,024,000 bytes"):
        download_record(record, tmp_path)
    zenodo.is_garbled = True
    with pytest.raises(AsdfError, match=r"files/a\.tar cannot be reached: no HTTP"):
        download_record(record, tmp_path)


def test_a_file_without_bytes_is_complete(zenodo, tmp_path):
    zenodo.files = {"empty.txt": b""}
    assert download_record(look_up_record("1"), tmp_path) == []
    assert (tmp_path / "empty.txt").read_bytes() == b""


def test_what_arrives_damaged_is_removed(zenodo, tmp_path):
    zenodo.damaged = True
    with pytest.raises(AsdfError, match="arrived damaged: its MD5 is not"):
        download_record(look_up_record("1"), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_archives_stay_in_their_folder(zenodo, tmp_path):
    outside = tarfile.TarInfo("../evil.txt")
    link = tarfile.TarInfo("link")
    link.type = tarfile.SYMTYPE
    link.linkname = "/etc/passwd"
    for member, message in (
        (outside, "the unsafe name .*: not unpacked"),
        (link, "link is not a regular file"),
    ):
        zenodo.files = {"x.tar.gz": tarred(member)}
        with pytest.raises(AsdfError, match=message):
            download_record(look_up_record("1"), tmp_path / "in")
    zenodo.files = {"x.zip": zipped(**{"../../evil.txt": b"x"})}
    with pytest.raises(AsdfError, match=r"the unsafe name .*: not unpacked"):
        download_record(look_up_record("1"), tmp_path / "in")
    assert not list(tmp_path.rglob("evil.txt")) and not (tmp_path / "in/link").exists()
    zenodo.files = {"x.zip": b"no zip at all"}
    with pytest.raises(AsdfError, match="it cannot be unpacked"):
        download_record(look_up_record("1"), tmp_path / "in")


def packed(folder: Path, kind: str) -> Path:
    """Return an archive of a file mine.txt and a folder of 20 files that do not compress."""
    source = folder / "source"
    (source / "wav").mkdir(parents=True)
    (source / "mine.txt").write_text("theirs")
    for number in range(20):
        content = np.random.default_rng(number).bytes(5000)
        (source / "wav" / f"{number}.wav").write_bytes(content)
    format_name = {".zip": "zip", ".tar.gz": "gztar", ".tar.bz2": "bztar", ".tar.xz": "xztar"}
    path = Path(shutil.make_archive(str(folder / "in" / "x"), format_name[kind], source))
    assert path.name == f"x{kind}"
    return path


KINDS = (".zip", ".tar.gz", ".tar.bz2", ".tar.xz")


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_overwrites_no_file_of_the_user(tmp_path, kind):
    path = packed(tmp_path, kind)
    mine = path.parent / "mine.txt"
    mine.write_text("my own")
    with pytest.raises(AsdfError, match=f"of the name {mine}, which is not overwritten. Move"):
        unpack_archive(path, "a")
    assert mine.read_text() == "my own"
    assert sorted(path.parent.iterdir()) == [mine, path]
    mine.unlink()
    # As a kill in the middle leaves it: the rest is added.
    (path.parent / "wav").mkdir()
    (path.parent / "wav" / "3.wav").write_bytes((tmp_path / "source/wav/3.wav").read_bytes())
    assert unpack_archive(path, "a")
    assert mine.read_text() == "theirs" and len(list(path.parent.glob("wav/*.wav"))) == 20
    mine.unlink()
    mine.symlink_to("away")
    with pytest.raises(AsdfError, match=r"is not overwritten|cannot be unpacked"):
        unpack_archive(path, "b")
    assert mine.is_symlink()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [0.3, 0.6, 0.95, "end", "cut"])
def test_a_damaged_archive_is_refused_and_leaves_nothing(tmp_path, kind, where):
    path = packed(tmp_path, kind)
    content = bytearray(path.read_bytes())
    if where == "cut":
        del content[-30:]
    else:
        start = len(content) - 8 if where == "end" else int(where * len(content))
        content[start : start + 100] = bytes(255 - byte for byte in content[start : start + 100])
    path.write_bytes(content)
    with pytest.raises(AsdfError, match="it cannot be unpacked"):
        unpack_archive(path, "a")
    assert list(path.parent.iterdir()) == [path]


def test_an_encrypted_archive_is_one_message(tmp_path):
    path = packed(tmp_path, ".zip")
    content = bytearray(path.read_bytes())
    # The flag of encryption, in the header of each member and in the directory.
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = -1
        while (start := content.find(signature, start + 1)) >= 0:
            content[start + offset] |= 1
    path.write_bytes(content)
    with pytest.raises(AsdfError, match=r"cannot be unpacked .* is encrypted, password required"):
        unpack_archive(path, "a")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["../x.zip", "a/b.zip", ".hidden", "a\\b"])
def test_files_of_names_that_lead_elsewhere_are_refused(zenodo, tmp_path, name):
    zenodo.names = {"odss.zip": name}
    with pytest.raises(AsdfError, match="this is not a record of files"):
        look_up_record("1")


def test_what_is_not_public_is_explained(zenodo, tmp_path, capsys):
    for name, reason in (("fakeavceleb", "provide it on request"), ("sonar", "no public files")):
        assert main(["corpora", name, str(tmp_path), "--download"]) == 2
        err = capsys.readouterr().err
        assert reason in err and f"python -m asdf corpora {name} FOLDER" in err
    assert main(["corpora", "odss", "--download"]) == 2
    assert not zenodo.asked


def test_from_the_hub(hub, tmp_path, capsys):
    pytest.importorskip("huggingface_hub")
    name = "DATASET_VCTK_BONAFIDE/test/p227_001.wav"
    archive = zipped(**{"DATASET_VITS/test/p227_002.wav": recording()})
    hub.repository("isjwdu/DFADD").commit({name: recording(), "spoofs.zip": archive})
    assert main(["corpora", "dfadd:test", str(tmp_path), "--download"]) == 0
    out = capsys.readouterr().out
    assert "trials       2: 1 bona fide, 1 spoof" in out
    assert (tmp_path / "DFADD" / name).is_file()
