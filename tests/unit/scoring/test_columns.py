"""Columns of a score: every value comes back from a journal, and the core does without extras."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import COLUMNS, find_columns
from asdf.scoring.scored import Scored
from asdf.scoring.speakers import SpeakerColumn, conclude_speaker
from asdf.segments import Segment, Speaker
from tests.conftest import ROOT
from tests.unit.conftest import small_settings, sound, write_small_network

SPEAKER = Speaker("ann", (Segment(0.0, 1.5), Segment(3.0, 4.25)), 0.5, 4.5)
# A map with a range so narrow that every score is beyond it.
BOUNDS = {"lowest_llr": -1e-3, "highest_llr": 1e-3, "bona_fide": 9, "spoof": 9}
MAPS = {"replicates": [[2.0, 1.0], [2.1, 1.1]]}
CALIBRATION = Calibration(2.0, 1.0, 0.0, **BOUNDS, others=MAPS)


# An editable installation would find the folder that is not here.
PROGRAM = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
from asdf.__main__ import main
status = main(sys.argv[1:])
print(status, sorted({"torch._dynamo", "sympy"} & sys.modules.keys()))
"""


def values_come_back(result: Scored, detector: asdf.Detector) -> set[str]:
    """Check that each value of a result survives a journal; return the keys."""
    columns = (*detector.pipeline.summary.columns, SpeakerColumn())
    for column in columns:
        if column.key not in result.values:
            continue
        value = result.values[column.key]
        again = column.restored(json.loads(json.dumps(column.saved(value))))
        assert type(again) is type(value)
        for name, attribute in vars(value).items():
            np.testing.assert_equal(getattr(again, name), attribute, err_msg=column.key)
            assert type(getattr(again, name)) is type(attribute), (column.key, name)
        assert column.placed(again) == column.placed(value)
        assert column.row(again) == column.row(value) or not column.cells
        assert column.words(again) == column.words(value)
    return set(result.values)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> asdf.Detector:
    """A calibrated network that scores frames."""
    settings = small_settings(network_class="asdf.networks.SSL_Linear")
    settings.front_end.front_end_class = "log_mel"
    settings.localisation.enabled = True
    path = tmp_path_factory.mktemp("everything") / "net.pt"
    write_small_network(path, settings, calibration=CALIBRATION.content())
    return asdf.Detector(path, "cpu", threads=1, speech_check="off")


def test_every_value_comes_back_from_a_journal(everything: asdf.Detector) -> None:
    samples = sound(150_000, 3)
    result = everything.score_whole(samples, 16000, frames=True)
    assert result.frames is not None and result.searched is not None
    assert result.unbounded_llr == pytest.approx(2 * result.raw + 1)
    of_speaker = conclude_speaker(result, SPEAKER)
    keys = values_come_back(of_speaker, everything)
    # A traced source is the subject of another test: no network gives both.
    assert keys == {*COLUMNS, SpeakerColumn.key} - {"sources", "channels"}
    channels = np.stack([samples, -samples], axis=1)
    assert "channels" in values_come_back(everything.score_whole(channels, 16000), everything)


def test_names_that_no_column_has_are_refused() -> None:
    result = Scored(0, None)
    assert result.frames is None and result.parts == ()
    with pytest.raises(AttributeError, match="'Scored' object has no attribute 'loudness'"):
        result.loudness  # noqa: B018
    for column in find_columns().values():
        for name, absent in column.attributes.items():
            assert getattr(result, name) == absent


def test_the_core_scores_without_extras(everything: asdf.Detector, tmp_path: Path) -> None:
    """A calibrated network gives its calibrated scores, with what the core knows of them."""
    for package in ("asdf", "asdf_antispoofing"):
        without = shutil.ignore_patterns("extras")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=without)
    soundfile.write(tmp_path / "call.wav", sound(150_000, 3), 16000, subtype="FLOAT")
    words = ["score", everything.source, "call.wav", "--json", "o.json", "--csv", "o.csv"]
    command = [sys.executable, "-c", PROGRAM, *words, "--threads", "1", "--speech-check", "off"]
    environment = {"PATH": "", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    # Spectra have windows: on the meta device torch would load its compiler for one.
    assert done.stdout.splitlines()[-1:] == ["0 []"], done.stderr
    [entry] = json.loads((tmp_path / "o.json").read_text())["recordings"]
    expected = everything.score_whole(tmp_path / "call.wav")
    assert entry["score"] == entry["llr"] == expected.score
    assert entry["unbounded_llr"] == pytest.approx(expected.unbounded_llr, rel=1e-5)
    assert entry["verdict"] == expected.verdict
    assert entry["searched"]["windows"] == len(expected.windows_scores)
    heading = Path(tmp_path / "o.csv").read_text().splitlines()[0]
    assert heading.endswith("precision,parts,windows_searched,log10_llr,unbounded_llr")
