"""Files that claim more than they hold are refused before anything is allocated."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest
import torch

from asdf.checkpoint.network_reading import read_network_file
from asdf.checkpoint.pickle_sizes import check_sizes
from asdf.checkpoint.state_dicts import state_dict_in
from asdf.checkpoint.weights_file import read_weights_file
from asdf.errors import AsdfError


def zipped(path: Path, change) -> Path:
    """A file of torch.save whose records (name: bytes) `change` has changed."""
    made = io.BytesIO()
    torch.save({"weight": torch.ones(1000)}, made)
    with zipfile.ZipFile(made) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    change(records)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    return path


def patch(old: bytes, new: bytes, count: int = -1):
    def change(records):
        name = next(name for name in records if name.endswith("data.pkl"))
        assert old in records[name]
        records[name] = records[name].replace(old, new, count)

    return change


THOUSAND = b"M" + (1000).to_bytes(2, "little")
HUGE = b"\x8a\x06" + (2**40).to_bytes(6, "little")


@pytest.mark.parametrize(
    "size", [HUGE, b"M" + (1001).to_bytes(2, "little"), b"J" + (2**31 - 1).to_bytes(4, "little")]
)
def test_a_storage_that_claims_more_than_its_record_is_refused(size, tmp_path):
    path = zipped(tmp_path / "weights.pt", patch(THOUSAND, size, 1))
    with pytest.raises(
        AsdfError, match=r"nothing in it was run: its storage 0 claims [\d,]+ bytes and holds 4,000"
    ):
        read_weights_file(path)
    with pytest.raises(AsdfError, match=r"its storage 0 claims"):
        read_network_file(path)


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path):
    def change(records):
        name = next(name for name in records if name.endswith("data.pkl"))
        head, tail = (
            records[name].split(THOUSAND, 1)[0] + THOUSAND,
            records[name].split(THOUSAND, 1)[1],
        )
        assert THOUSAND in tail
        records[name] = head + tail.replace(THOUSAND, HUGE)

    path = zipped(tmp_path / "weights.pt", change)
    with pytest.raises(AsdfError):
        read_weights_file(path)


def test_compressed_and_repeated_records_are_refused(tmp_path):
    path = zipped(tmp_path / "weights.pt", lambda records: None)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    with pytest.raises(pickle.UnpicklingError, match="is compressed, which torch"):
        check_sizes(tmp_path / "packed.pt")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(next(iter(records)), b"x")
    with pytest.raises(pickle.UnpicklingError, match="two records of one name"):
        check_sizes(path)


def test_a_legacy_file_that_claims_more_than_its_size_is_refused(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(1000)}, path, _use_new_zipfile_serialization=False)
    check_sizes(path)
    assert torch.equal(read_weights_file(path)["weight"], torch.ones(1000))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(THOUSAND, HUGE, 1))
    with pytest.raises(
        AsdfError, match=r"its storages claim 4,398,046,511,104 bytes, and the file has"
    ):
        read_weights_file(path)


class Bytes:
    def __reduce__(self):
        return bytearray, (10**12,)


def test_what_nothing_bounds_is_refused(tmp_path):
    torch.save({"a": torch.ones(1), "b": Bytes()}, tmp_path / "weights.pt")
    with pytest.raises(AsdfError, match="it asks for a bytearray"):
        read_weights_file(tmp_path / "weights.pt")
    # The count comes out of a dictionary that the pickle built before, which is not followed.
    path = zipped(tmp_path / "unbounded.pt", patch(THOUSAND, b"}", 1))
    with pytest.raises(AsdfError, match="describes a storage in a way that cannot be followed"):
        read_weights_file(path)


@pytest.mark.parametrize(
    "pickled", [b".", b"0.", b"R.", b"t.", b"h\x05.", b"Q.", b"\x85.", b"q\x00."]
)
def test_broken_pickles_are_reported(pickled, tmp_path):
    def change(records):
        records[next(name for name in records if name.endswith("data.pkl"))] = b"\x80\x02" + pickled

    with pytest.raises(AsdfError, match=r"weights\.pt"):
        read_weights_file(zipped(tmp_path / "weights.pt", change))


def test_tensors_that_view_the_same_numbers_over_and_over_are_refused(tmp_path):
    torch.save({"a": torch.ones(1).expand(10**9), "b": torch.ones(3)}, tmp_path / "weights.pt")
    with pytest.raises(AsdfError, match=r"its tensors claim 4,000,000,012 bytes, and it holds 16"):
        state_dict_in(read_weights_file(tmp_path / "weights.pt"), "weights.pt")
    torch.save({"a": torch.ones(3).to_sparse()}, tmp_path / "weights.pt")
    with pytest.raises(AsdfError, match="not of plain numbers: a"):
        state_dict_in(read_weights_file(tmp_path / "weights.pt"), "weights.pt")


@pytest.mark.parametrize(
    "name", ["fairseq_xlsr_like.pt", "ssl_aasist.pth", "AASIST.pth", "sls.pth"]
)
def test_honest_files_pass(name, reference):
    check_sizes(reference(name))


def test_an_optimisers_state_and_shared_storages_pass(tmp_path):
    layer = torch.nn.Linear(3, 3)
    optimiser = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    content = {
        "model_state_dict": layer.state_dict(),
        "optimizer_state_dict": optimiser.state_dict(),
        "tied": layer.weight,
        "rows": layer.weight.data[1:],
        "half": torch.ones(5, dtype=torch.bfloat16),
        "nothing": torch.empty(0),
    }
    for zipfile_format in (True, False):
        torch.save(content, tmp_path / "weights.pt", _use_new_zipfile_serialization=zipfile_format)
        check_sizes(tmp_path / "weights.pt")
