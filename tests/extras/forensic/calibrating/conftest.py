"""What the tests of `calibrate` share."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.evaluation import read_scores, write_scores
from asdf.extras.forensic import support
from tests.unit.conftest import small_settings, sound, write_small_network

COUNT = 40
# Three and more windows of the network's 8,000 samples.
LONG = 17_000


@pytest.fixture(scope="package", autouse=True)
def few_replicates() -> Iterator[None]:
    """Intervals are the subject of other tests: 500 maps take longer than all else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "with_support", partial(support.with_support, replicates=50))
        yield


def run(capsys, *words):
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """Forty recordings of seven speakers with a network, its scores, and long recordings."""
    folder = tmp_path_factory.mktemp("set")
    for index in range(COUNT):
        soundfile.write(folder / f"{index}.wav", sound(8000, index), 16000)
    lines = [f"{index}.wav {index % 2}\n" for index in range(COUNT)]
    (folder / "list.txt").write_text("".join(lines))
    settings = small_settings()
    # Embeddings that tell these recordings apart.
    settings.front_end.front_end_class = "filter_bank"
    write_small_network(folder / "net.pt", settings)
    words = ("score", "net.pt", "list.txt", "--scores", "raw.txt", "--device", "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(list(words)) == 0
        # Labelled by their order, so that they can be calibrated whatever the network says.
        raw = read_scores("raw.txt")
        labels = (raw.scores >= np.sort(raw.scores)[15]).astype(int)
        write_scores("scores.txt", raw.ids, labels, raw.scores)
        keys = np.where(labels, "bonafide", "spoof")
        named = enumerate(zip(raw.ids, keys, strict=True))
        rows = [f"{name},{key},s{index % 7}\n" for index, (name, key) in named]
        (folder / "protocol.csv").write_text("path,label,speaker\n" + "".join(rows))
        (folder / "long").mkdir()
        for index in range(19):
            samples = sound(LONG + 100 * index, index)
            soundfile.write(folder / "long" / f"{index:02}.wav", samples, 16000)
        arguments = ["net.pt", "scores.txt", "--protocol", "protocol.csv", "--output", "home.pt"]
        assert main(["calibrate", *arguments]) == 0
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made
