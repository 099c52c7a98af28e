"""Weight files: read without running anything in them, or refused with the reason."""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from asdf.checkpoint.weights_file import read_weights_file
from asdf.errors import AsdfError

KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


class Malicious:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def save_zip(content: object, path: Path) -> None:
    torch.save(content, path)


def save_legacy(content: object, path: Path) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def save_pickle(content: object, path: Path) -> None:
    path.write_bytes(pickle.dumps(content, protocol=2))


@pytest.mark.parametrize("save", [save_zip, save_legacy, save_pickle])
def test_code_in_a_file_is_not_run(save, tmp_path):
    save(
        {"model": {"weight": torch.ones(2)}, "cfg": Malicious(tmp_path / "trace")},
        tmp_path / "weights.pt",
    )
    with pytest.raises(AsdfError) as caught:
        read_weights_file(tmp_path / "weights.pt")
    assert not (tmp_path / "trace").exists()
    refused = "torch.storage._load_from_bytes" if save is save_pickle else f"{os.name}.mkdir"
    # Neither more nor less: torch's advice is how to run it.
    assert str(caught.value) == (
        f"cannot read weights from {tmp_path / 'weights.pt'}. It is refused, and nothing in it was "
        f"run: it asks for {refused}, which is neither a tensor nor a plain value. Such a file "
        "holds tensors and plain values only; this one is damaged, made for another program, or "
        "malicious. If you trust it, ask its authors for its state dict alone, saved by "
        "torch.save(model.state_dict(), PATH)."
    )


def test_what_fairseq_saves_with_the_weights_is_read(tmp_path, monkeypatch):
    dictionary = type(
        "Dictionary", (), {"__module__": "fairseq.data.dictionary", "__qualname__": "Dictionary"}
    )
    modules = ("fairseq", "fairseq.data", "fairseq.data.dictionary")
    for name in modules:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[modules[-1]].Dictionary = dictionary
    entry = dictionary()
    entry.symbols = ["a"]
    content = {
        "args": argparse.Namespace(encoder_layers=3),
        "task_state": {"target_dictionary": entry},
        "extra_state": {kind: np.dtype(kind).type(1) for kind in KINDS},
        "model": {"weight": torch.tensor([1.0, 2.0])},
    }
    torch.save(content, tmp_path / "checkpoint.pt")
    for name in modules:
        monkeypatch.delitem(sys.modules, name)
    read = read_weights_file(tmp_path / "checkpoint.pt")
    assert vars(read["args"]) == {"encoder_layers": 3}
    assert read["extra_state"] == dict.fromkeys(KINDS, 1)
    assert vars(read["task_state"]["target_dictionary"]) == {}
    assert read["model"]["weight"].tolist() == [1.0, 2.0]


DAMAGED = r"It is damaged or not a network of ASDF, and nothing in it was run\. Compare its size"
RECORDING = r"\), not a network; commands name the network first\.$"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda whole: whole[: len(whole) // 2], f": PytorchStreamReader .*{DAMAGED}"),
        (lambda whole: b"", rf": torch cannot load it \(EOFError\)\. {DAMAGED}"),
        (lambda whole: b"not weights", r"\. It is refused, .* run: Unsupported operand 110\. Such"),
        (lambda whole: whole, r": it holds a list, but weights must be in a dictionary\.$"),
        (
            lambda whole: b"\xef\xbb\xbf \r\n<HTML>",
            ": it is a web page, not a network; a server or ",
        ),
        (
            lambda whole: b"<?xml?>",
            ": it is a web page, not a network; a server or a proxy sent it",
        ),
        *(
            (lambda whole, start=start: start + whole, rf": it is a recording \(.*{RECORDING}")
            for start in (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3", b"FORM", b".snd", b"caff")
        ),
    ],
)
def test_what_is_no_file_of_weights_is_reported(change, said, tmp_path):
    path = tmp_path / "weights.pt"
    torch.save([torch.ones(1000)], path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(AsdfError, match=rf"^cannot read weights from {path}{said}"):
        read_weights_file(path)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(
        AsdfError, match=r"^cannot read X \S+: there is no such file\. Check the path"
    ):
        read_weights_file(tmp_path / "weights.pt", "X")
    with pytest.raises(AsdfError, match=r"weights from \S+: it is a folder\. Check the path\.$"):
        read_weights_file(tmp_path)


def test_a_file_without_checksums_is_named_in_the_log(tmp_path: Path, caplog) -> None:
    save_legacy({"weight": torch.ones(3)}, tmp_path / "old.pt")
    save_zip({"weight": torch.ones(3)}, tmp_path / "new.pt")
    read_weights_file(tmp_path / "new.pt")
    assert not caplog.text
    read_weights_file(tmp_path / "old.pt")
    assert f"{tmp_path / 'old.pt'} is in the format that torch.save had" in caplog.text
    assert "no checksums" in caplog.text


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system lists no maps")
def test_a_file_is_mapped_into_memory_on_request_alone(tmp_path):
    """What is not mapped stays as it was read, also where the file is replaced in its place."""
    path = tmp_path / "mapped.pt"
    torch.save({"weight": torch.arange(4.0)}, path)

    def is_mapped() -> bool:
        return str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")

    content = read_weights_file(path, mapped=False)
    assert content["weight"].tolist() == [0, 1, 2, 3] and not is_mapped()
    mapped = read_weights_file(path)
    assert mapped["weight"].tolist() == [0, 1, 2, 3] and is_mapped()
