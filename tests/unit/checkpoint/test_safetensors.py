"""safetensors files: written whole, read without copies, refused with one message if damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from asdf.checkpoint.network_reading import read_safetensors, write_safetensors
from asdf.errors import AsdfError

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
    assert read.keys() == expected.keys()
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


def test_names_that_share_memory_are_written_each(tmp_path):
    tied = {"first": TENSORS["a.weight"], "second": TENSORS["a.weight"][0]}
    write_safetensors(tmp_path / "a.safetensors", tied, {})
    same(read_safetensors(tmp_path / "a.safetensors")[0], tied)


def test_a_file_of_other_writers_is_read(tmp_path):
    header = {"f": entry([2], 0, 8), "__metadata__": {"by": "hand"}}
    read, metadata = read_safetensors(raw(tmp_path / "x", header, struct.pack("<2f", 1.5, -2)))
    assert read["f"].tolist() == [1.5, -2]
    assert metadata == {"by": "hand"}


def test_tensors_that_are_not_aligned_are_read(tmp_path):
    header = {"b": entry([1], 0, 1, "U8"), "f": entry([1], 1, 5)}
    read, _ = read_safetensors(raw(tmp_path / "x", header, b"\x07" + struct.pack("<f", 2.5)))
    assert (read["b"].item(), read["f"].item()) == (7, 2.5)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": entry([10**12], 0, 4 * 10**12)}, b""),
        ({"a": entry([2**62, 4], 0, 0)}, b""),
        ({"a": entry([2], 0, 4)}, bytes(4)),
        ({"a": entry([1], -4, 0)}, bytes(4)),
        ({"a": entry([-1, -1], 0, 4)}, bytes(4)),
        ({"a": entry([1.0], 0, 4)}, bytes(4)),
        ({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, bytes(4)),
        ({"a": entry([1], 4, 8)}, bytes(8)),
        ({"a": entry([1], 0, 4)}, bytes(8)),
        ({"a": entry([1], 0, 4, "F5")}, bytes(4)),
        ({"a": {"dtype": "F32"}}, b""),
        ({"a\x1b[2J": entry([2], 0, 4)}, bytes(4)),
        ([1], b""),
        (b"not JSON", b""),
        (b"[" * 100_000, b""),
    ],
)
def test_headers_that_do_not_fit_are_refused(header, data, tmp_path):
    path = raw(tmp_path / "x.safetensors", header, data)
    with pytest.raises(AsdfError) as caught:
        read_safetensors(path)
    message = str(caught.value)
    assert message.startswith(f"weights file {path} cannot be read: ")
    assert "damaged or cut short" in message
    assert "\x1b" not in message and "\n" not in message and len(message) < 600


def test_files_without_a_whole_header_are_refused(tmp_path):
    raw(tmp_path / "x", {}, length=2**60)
    with pytest.raises(AsdfError, match=r"cannot be read: .*header too large"):
        read_safetensors(tmp_path / "x")
    for content in (b"", b"1234567"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(AsdfError, match="cannot be read"):
            read_safetensors(tmp_path / "x")
    with pytest.raises(AsdfError, match=r"cannot read weights from .*nothing: No such file"):
        read_safetensors(tmp_path / "nothing")


def test_a_type_without_a_name_in_the_format_is_refused(tmp_path):
    unusual = torch.quantize_per_tensor(torch.ones(1), 1.0, 0, torch.quint8)
    with pytest.raises(AsdfError, match=r"cannot write .*x as safetensors"):
        write_safetensors(tmp_path / "x", {"c": unusual}, {})
    assert not list(tmp_path.iterdir())
