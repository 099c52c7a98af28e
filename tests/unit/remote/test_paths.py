"""Paths of objects go wherever a Path goes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.remote import RemotePath, address_of, as_path, is_remote, join_path
from asdf.runs.files import atomic_write, write_text


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("s3://bucket/a/b.tar", "s3://bucket/a/b.tar"),
        # What `Path` makes of it.
        (str(Path("s3://bucket/a/b.tar")), "s3://bucket/a/b.tar"),
        ("https://host//a/./b/../c", "https://host/a/c"),
        ("hf://datasets/org/name", "hf://datasets/org/name"),
        ("gs://bucket/../../x", "gs://x"),
        ("corpora/LA", None),
        ("/s3/x", None),
        ("a/s3://b", None),
        ("s3:x", None),
        ("C:/x", None),
        ("ftp://host/x", None),
        # Names of folders, too.
        ("memory", None),
        ("s3", None),
    ],
)
def test_addresses_are_known_by_their_schemes(path: str, address: str | None) -> None:
    assert address_of(path) == address
    assert is_remote(path) == (address is not None)


def test_what_is_joined_to_a_remote_path_is_remote() -> None:
    folder = as_path("s3://bucket/corpus")
    path = folder / "LA.tar/flac" / "a.flac"
    assert isinstance(path, RemotePath) and isinstance(path, Path)
    assert str(path) == f"{path}" == path.__fspath__() == "s3://bucket/corpus/LA.tar/flac/a.flac"
    assert (path.name, path.stem, path.suffix) == ("a.flac", "a", ".flac")
    assert str(path.with_suffix(".wav").parent) == "s3://bucket/corpus/LA.tar/flac"
    assert str(path.relative_to(folder)).endswith("LA.tar/flac/a.flac")
    assert path.is_absolute() and path.resolve() == path.absolute() == path
    assert str(pickle.loads(pickle.dumps(path))) == str(path)
    assert hash(path) == hash(as_path(str(path))) and path == as_path(str(path))
    assert str(join_path(folder, "/data/x.flac")) == "/data/x.flac"
    assert str(join_path(Path("here"), "s3://b/x.flac")) == "s3://b/x.flac"
    assert join_path(Path("here"), "x.flac") == Path("here/x.flac")
    assert not isinstance(as_path("corpora/LA"), RemotePath)


def test_a_remote_path_answers_as_a_path_does(store: str) -> None:
    write_text(f"{store}/d/list.txt", "a.flac 1\n")
    folder = as_path(f"{store}/d")
    path = folder / "list.txt"
    assert folder.is_dir() and not folder.is_file() and folder.exists()
    assert path.is_file() and not path.is_dir() and path.exists()
    assert not (folder / "no").exists()
    assert path.read_text() == "a.flac 1\n" and path.stat().st_size == 9
    assert [str(each) for each in folder.iterdir()] == [f"{store}/d/list.txt"]
    with pytest.raises(FileNotFoundError):
        (folder / "no").stat()
    with pytest.raises(OSError, match="written whole"):
        path.open("w")
    path.unlink()
    path.unlink(missing_ok=True)
    assert not path.exists()


def test_outputs_are_whole_or_as_they_were(store: str) -> None:
    path = as_path(f"{store}/scores.txt")
    write_text(path, "before")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "before"
    with atomic_write(path, "wb") as file:
        file.write(b"after")
    assert path.read_bytes() == b"after"


def test_a_web_server_takes_no_outputs() -> None:
    with pytest.raises(UsageError, match="a web server does not accept files"):
        write_text("https://host/scores.txt", "")


def test_a_store_that_refuses_an_output_is_named(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only bucket")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", refuse)
    with pytest.raises(AsdfError, match=r"scores.txt may not be written \(read-only bucket\)"):
        write_text(f"{store}/scores.txt", "")
