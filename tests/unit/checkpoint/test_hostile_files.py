"""Files that were damaged, or made to do harm: one message by every way in, in little memory."""

from __future__ import annotations

import json
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import read_network_file
from asdf.checkpoint.weights_file import read_weights_file
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.recognition import recognise
from asdf.interchange import read_network
from asdf.interchange.fairseq import conv_layers
from asdf.interchange.front_end_weights import read_front_end_weights
from asdf.interchange.hugging_face import read_architecture
from asdf.networks import SSL_AASIST
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.settings.sections import Sections
from asdf.training.checkpoints import newest_checkpoint, read_checkpoint
from asdf.training.training_progress import Progress

WAYS: dict[str, Callable[[Path], Any]] = {
    "score and export": read_network,
    "import": lambda path: recognise(path, {}),
    "calibrate": read_network_file,
    "resume": read_checkpoint,
    "front end": lambda path: read_front_end_weights(str(path), KNOWN["tiny"]),
}


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """What a network file holds."""
    settings = Sections()
    settings.front_end.architecture = "tiny"
    return NetworkFile.from_network(SSL_AASIST(settings), settings).content()


def refusals(path: Path) -> list[str]:
    """The message of every way in."""
    messages = []
    for read in WAYS.values():
        with pytest.raises(AsdfError) as caught:
            read(path)
        messages.append(str(caught.value))
    return messages


def flipped(whole: bytes, position: int, bit: int = 0) -> bytes:
    return whole[:position] + bytes([whole[position] ^ (1 << bit)]) + whole[position + 1 :]


def rewritten(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write a file of torch.save again with a changed pickle, and checksums that fit."""
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, change(data) if name.endswith("/data.pkl") else data)


def test_a_flipped_bit_of_the_weights_is_refused(content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    torch.save(content, path)
    whole = path.read_bytes()
    assert read_network(path)[1].format == "asdf"
    path.write_bytes(flipped(whole, len(whole) // 2, 5))
    for message in refusals(path):
        assert str(path) in message and "nothing in it was run" in message
        assert "is corrupt (CRC-32). It is damaged" in message


def test_wherever_a_bit_flips_a_file_is_refused_or_the_same(tmp_path):
    path = tmp_path / "weights.pt"
    weight = torch.arange(3000.0)
    torch.save({"weight": weight, "epoch": 7}, path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
        record = archive.getinfo("weights/data/0")
        pickled = archive.getinfo("weights/data.pkl")
    generator = np.random.default_rng(0)
    start = whole.index(weight.numpy().tobytes())
    text = whole.index(b"\x80\x02", pickled.header_offset)
    parts = {
        "weights": (start, start + record.file_size),
        "pickle": (text, text + pickled.file_size),
        "directory": (directory, len(whole)),
        "all": (0, len(whole)),
    }
    for part, (first, last) in parts.items():
        for position in generator.integers(first, last, 40):
            path.write_bytes(flipped(whole, int(position), int(generator.integers(8))))
            try:
                read = read_weights_file(path)
            except AsdfError as error:
                assert "nothing in it was run" in str(error)
            else:
                assert part in ("directory", "all"), position
                assert torch.equal(read["weight"], weight) and read["epoch"] == 7


def laughs(pair: Callable[[Any], Any], start: Any) -> Any:
    value = start
    for _ in range(60):
        value = pair(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BOUNDED = {
    "shared lists": lambda: laughs(lambda value: [value, value], ["lol"]),
    "shared dictionaries": lambda: laughs(lambda value: {"a": value, "b": value}, {}),
    "levels": lambda: deep(400),
    "text": lambda: ["x" * 1_000_000] * 11,
    "number": lambda: 2**1500,
}


@pytest.mark.slow_but("levels-settings", "text-settings", "number-settings", "levels-progress")
@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        *((kind, "settings") for kind in BOUNDED),
        ("shared lists", "calibration"),
        ("levels", "progress"),
    ],
)
def test_values_without_bounds_are_refused(kind, entry, content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    changed = {**content, entry: BOUNDED[kind]()}
    if entry == "settings":
        network = {**content["settings"]["network"], "train_clip_size": BOUNDED[kind]()}
        changed["settings"] = {**content["settings"], "network": network}
    torch.save(changed, path)
    allowed = max(200_000, path.stat().st_size // 4)
    said = {
        "text": "strings of more than 10,000,000 characters",
        "number": "a number of 1,501 binary digits",
    }.get(kind, f"it holds more than {allowed:,} values, or more than 100 inside each other")
    for message in refusals(path):
        assert said in message and len(message) < 1000


def pickled(value: bytes) -> Callable[[bytes], bytes]:
    """Put a value, written as a pickle, instead of the text 'HERE'."""
    return lambda data: data.replace(b"X\x04\x00\x00\x00HERE", value)


LEVELS_3000 = b"]" * 3001 + b"a" * 3000


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (LEVELS_3000, "more than 100 inside each other"),
        (b"I" + b"9" * 100_000 + b"\n", "Unsupported operand"),
        (b"\x8b" + (100_000).to_bytes(4, "little") + b"\x7f" * 100_000, "Unsupported operand"),
    ],
    ids=["levels", "digits", "long"],
)
def test_what_would_hang_the_reader_itself_is_refused(value, said, content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    torch.save({**content, "calibration": "HERE"}, path)
    rewritten(path, pickled(value))
    for message in refusals(path):
        assert said in message and len(message) < 1000


def test_what_checkpoints_do_hold_passes(tmp_path):
    content = {
        "weight": torch.nn.Parameter(torch.ones(2)),
        "random": (3, tuple(range(625)), None),
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "ordered": OrderedDict(a=1),
        "size": torch.Size([3, 4]),
        "numbers": [np.float64(1.5), np.int64(-4), np.float32(0.25), np.bool_(True)],
        "swapped": np.dtype(">f8").type(1.5),
    }
    torch.save(content, tmp_path / "weights.pt")
    read = dict(read_weights_file(tmp_path / "weights.pt"))
    assert torch.equal(read.pop("weight"), torch.ones(2))
    content.pop("weight")
    assert read == content
    assert [type(number) for number in read["numbers"]] == [float, int, float, bool]


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self):
        return np.dtype, (self.name,)


class Scalar:
    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self):
        return np.float64(0).__reduce__()[0], (Dtype(self.name),)


@pytest.mark.parametrize("name", ["V2000000000", "U500000000", "(9,9)f8", "O"])
def test_types_of_numpys_that_are_no_number_are_refused(name, content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    torch.save({**content, "x": [Scalar(name) for _ in range(8)]}, path)
    for message in refusals(path):
        assert f"it asks for numpy's type '{name}', which is not a single number" in message


@pytest.mark.parametrize(
    "shape", [[0, 2**62, 2**62], [0, 2**70], [2**70, 0], [1] * 17, [0, 10**4000]]
)
def test_shapes_that_no_tensor_has_are_refused(shape, tmp_path):
    begin_end = [0, 4] if 0 not in shape else [0, 0]
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": begin_end}})
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * begin_end[1])
    # A tensor without numbers is harmless by itself; no network has such a tensor.
    for read in (read_network, lambda path: recognise(path, {})):
        with pytest.raises(AsdfError) as caught:
            read(path)
        assert len(str(caught.value)) < 1000


def test_metadata_without_bounds_are_refused(tmp_path):
    description = json.dumps({"settings": {"network": {"train_clip_size": deep(400)}}})
    header = json.dumps({"__metadata__": {"asdf": description}})
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(AsdfError, match="more than 100 inside each other"):
        read_network(path)


def test_layers_without_names_and_without_numbers_are_refused(content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    torch.save({**content, "model_state_dict": {3: torch.ones(1), "a": torch.ones(1)}}, path)
    for message in refusals(path):
        assert "the name of a layer is 3, which is not a string" in message
    texts = dict.fromkeys(content["model_state_dict"], "weights")
    torch.save({**content, "model_state_dict": texts}, path)
    with pytest.raises(AsdfError, match=r"its layer .* is a str, not a tensor"):
        recognise(path, {})
    with pytest.raises(AsdfError, match=r"\(a str in the file, [0-9x]+ in the network\)"):
        read_network(path)


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ([1], "it is a list, not a dictionary"),
        ({"step": "abc"}, "its step is 'abc'"),
        ({"step": -1}, "its step is -1"),
        ({"list_digest": 3}, "its list_digest is 3"),
        ({"new": 1}, "it has an unknown entry 'new'"),
    ],
)
def test_a_checkpoint_of_damaged_progress_is_skipped(progress, said, content, tmp_path, caplog):
    path = tmp_path / "epoch.2.pt"
    torch.save({**content, "progress": Progress(epochs=1, step=3).state()}, tmp_path / "epoch.1.pt")
    torch.save({**content, "progress": progress}, path)
    with caplog.at_level("WARNING"):
        assert newest_checkpoint(tmp_path) == tmp_path / "epoch.1.pt"
    assert f"skipped: {path}: its training progress is damaged" in caplog.text
    assert said in caplog.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('"hidden_size": Infinity', "cannot convert float infinity to integer"),
        ('"hidden_size": 1e999', "cannot convert float infinity to integer"),
        ('"num_attention_heads": 0', "heads is 0, but must be at least 1"),
        ('"intermediate_size": -8', "feed_forward is -8, but must be at least 1"),
    ],
)
def test_configurations_of_impossible_sizes_are_reported(change, said, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2", ' + change + "}")
    with pytest.raises(AsdfError, match=f"config.json is invalid: {said}"):
        read_architecture(tmp_path)


def test_a_configuration_larger_than_its_weights_is_refused_before_memory_is_taken(tmp_path):
    config = {"model_type": "wav2vec2", "num_attention_heads": 16}
    torch.save(KNOWN["tiny"].build().state_dict(), tmp_path / "pytorch_model.bin")
    for layers, size, said in (
        (10**9, 64, "1,000,000,000 encoder layers"),
        (2, 2**20, "do not fit the architecture that they name"),
        (2, 2**30, "state impossible sizes"),
    ):
        config |= {"num_hidden_layers": layers, "hidden_size": size}
        (tmp_path / "config.json").write_text(json.dumps(config))
        with pytest.raises(AsdfError, match=said):
            read_front_end_weights(str(tmp_path), KNOWN["tiny"])


@pytest.mark.parametrize(
    "name",
    [
        *("spectrum.window", "spectrum.n_fft", "spectrum.filters", "spectrum.coefficients"),
        *("back_end.rawnet2_filters", "back_end.rawnet2_taps"),
        *("sinc.filters", "sinc.taps", "cqt.bins_per_octave"),
    ],
)
def test_sizes_of_tables_are_bounded_since_they_are_computed_when_a_network_is_built(name):
    section, _, setting = name.partition(".")
    file = NetworkFile({}, settings={section: {setting: 10**9}}, path=Path("stranger.pt"))
    with pytest.raises(AsdfError, match=f"stranger.pt was made with {name} = 1000000000, which"):
        file.to_sections()


def test_texts_of_options_are_bounded():
    with pytest.raises(ValueError, match="has more than 100 layers"):
        conv_layers("[(512, 3, 2)]" + " * 99" * 6)
    with pytest.raises(AsdfError, match="is not the literal of an architecture"):
        Architecture.from_text("{'layers': " + "-" * 100_000 + "1}")


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        (b"cposix\nsystem\n", "posix.system"),
        (b"cevil\x1b[2J\x07\nname\n", "evil\\x1b[2J\\x07.name"),
        (b"casdf.commands.score\nmain\n", "asdf.commands.score.main"),
    ],
    ids=["system", "escapes", "asdf"],
)
def test_a_malicious_pickle_is_named_and_no_advice_passed_on(named, shown, content, tmp_path):
    path = tmp_path / "epoch.1.pt"
    torch.save({**content, "x": "HERE"}, path)
    rewritten(path, pickled(named + b"X\x04\x00\x00\x00true\x85R"))
    for message in refusals(path):
        assert f"it asks for {shown}, which is neither a tensor nor a plain value" in message
        assert "It is refused, and nothing in it was run" in message
        for advice in ("weights_only", "safe_globals", "torch.load", "\x1b", "\x07"):
            assert advice not in message


def test_a_program_of_torchscript_is_named(tmp_path):
    path = tmp_path / "program.pt"
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    for message in refusals(path):
        assert "it is a TorchScript program, which would be executed when read" in message
        assert "weights_only" not in message


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"RIFFZ\xe4\x00\x00WAVEfmt ", r"it is a recording \(RIFF, as WAV files begin\)"),
        (b"fLaC\x00\x00\x00\x22", r"it is a recording \(FLAC\)"),
        (b"OggS\x00\x02", r"it is a recording \(Ogg\)"),
        (b"\n<!DOCTYPE html><html>", "it is a web page, not a network"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"),
    ],
)
def test_files_of_another_kind_are_named(start, said, tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(start + bytes(range(256)))
    with pytest.raises(AsdfError, match=f"cannot read the network {path}: {said}") as caught:
        read_network(path)
    assert str(caught.value).isprintable()
    with pytest.raises(AsdfError, match=f"cannot read weights from {path}: {said}"):
        recognise(path, {})


def test_a_name_of_the_hugging_face_hub_is_recognised(tmp_path):
    name = "facebook/wav2vec2-xls-r-300m"
    with pytest.raises(AsdfError) as caught:
        read_front_end_weights(str(tmp_path / name), KNOWN["tiny"])
    assert str(caught.value) == (
        f"there is no file {tmp_path / name}: check front_end.weights. {name} looks like the name "
        f"of a model on the Hugging Face hub: if it is, set front_end.weights='hub:{name}', which "
        "is downloaded once."
    )
    for other in ("weights/xlsr2_300m.pt", "gone"):
        with pytest.raises(AsdfError) as caught:
            read_front_end_weights(str(tmp_path / other), KNOWN["tiny"])
        assert str(caught.value) == f"there is no file {tmp_path / other}: check front_end.weights."
