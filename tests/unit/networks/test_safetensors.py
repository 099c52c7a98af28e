"""safetensors: the same files as the format's own package, and damaged or hostile headers refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from asdf.errors import AsdfError
from asdf.networks.safetensors import read_safetensors, write_safetensors

TENSORS = {
    "a.weight": torch.arange(6, dtype=torch.float32).view(2, 3),
    "b": torch.tensor([True, False, True]),
    "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "number": torch.tensor(7),
    "nothing": torch.empty(0, 4),
    "ü": torch.tensor([1.0, 2.0], dtype=torch.float64),
}


def raw(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(shape, begin, end, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def same(read, expected):
    assert list(read) == list(expected)
    for name, tensor in expected.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor), name


def test_a_round_trip(tmp_path):
    write_safetensors(tmp_path / "a.safetensors", TENSORS, {"format": "pt"})
    read, metadata = read_safetensors(tmp_path / "a.safetensors")
    same(read, TENSORS)
    assert metadata == {"format": "pt"}
    before = (tmp_path / "a.safetensors").read_bytes()
    read["a.weight"].zero_()
    assert (tmp_path / "a.safetensors").read_bytes() == before


def test_views_are_written_as_they_look(tmp_path):
    write_safetensors(tmp_path / "a.safetensors", {"t": TENSORS["a.weight"].T}, {})
    assert torch.equal(read_safetensors(tmp_path / "a.safetensors")[0]["t"], TENSORS["a.weight"].T)


def test_the_formats_own_package_reads_and_writes_the_same(tmp_path):
    official = pytest.importorskip(
        "safetensors.torch", reason="the format's own package comes with transformers"
    )
    write_safetensors(tmp_path / "ours.safetensors", TENSORS, {"x": "y"})
    read = official.load_file(tmp_path / "ours.safetensors")
    same({name: read[name] for name in TENSORS}, TENSORS)
    official.save_file(TENSORS, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    read, metadata = read_safetensors(tmp_path / "theirs.safetensors")
    same({name: read[name] for name in TENSORS}, TENSORS)
    assert metadata == {"format": "pt"}


def test_tensors_that_are_not_aligned_are_read(tmp_path):
    header = {"b": entry([1], 0, 1, "U8"), "f": entry([1], 1, 5)}
    read, _ = read_safetensors(raw(tmp_path / "x", header, b"\x07" + struct.pack("<f", 2.5)))
    assert (read["b"].item(), read["f"].item()) == (7, 2.5)


@pytest.mark.parametrize(
    ("header", "data", "told"),
    [
        ({"a": entry([10**12], 0, 4 * 10**12)}, b"", "does not fit its bytes"),
        ({"a": entry([2], 0, 4)}, bytes(4), "does not fit its bytes"),
        ({"a": entry([1], -4, 0)}, bytes(4), "does not fit its bytes"),
        ({"a": entry([-1, -1], 0, 4)}, bytes(4), "has the shape"),
        ({"a": entry([1.0], 0, 4)}, bytes(4), "has the shape"),
        ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, bytes(4), "overlap"),
        ({"a": entry([1], 4, 8)}, bytes(8), "leave a gap at byte 0"),
        ({"a": entry([1], 0, 4)}, bytes(8), "4 bytes too many"),
        ({"a": entry([1], 0, 4, "F4")}, bytes(4), "known are F64"),
        ({"a": {"dtype": "F32"}}, b"", "is not one of a tensor"),
        ([1], b"", "not a dictionary"),
        (b"not JSON", b"", "not JSON"),
        (b"[" * 100_000, b"", "not JSON"),
        (b'{"a":1,"a":2}', b"", "names something twice"),
    ],
)
def test_headers_that_do_not_fit_are_refused(header, data, told, tmp_path):
    with pytest.raises(AsdfError, match=told):
        read_safetensors(raw(tmp_path / "x.safetensors", header, data))


def test_the_headers_length_is_bounded(tmp_path):
    with pytest.raises(
        AsdfError, match="announces a header of 1,152,921,504,606,846,976 bytes, and has 10"
    ):
        read_safetensors(raw(tmp_path / "x", {}, length=2**60))
    for content in (b"", b"1234567"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(AsdfError, match="has no header"):
            read_safetensors(tmp_path / "x")
    with pytest.raises(AsdfError, match="No such file"):
        read_safetensors(tmp_path / "nothing")


def test_types_without_a_name_are_told(tmp_path):
    with pytest.raises(AsdfError, match=r"no type for the torch\.complex64 numbers of c"):
        write_safetensors(tmp_path / "x", {"c": torch.ones(1, dtype=torch.complex64)}, {})
    assert not list(tmp_path.iterdir())
