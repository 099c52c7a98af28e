"""The script for Ray maps a detector over Ray Data, on this machine."""

import os
import shutil
import subprocess
import sys

import pytest
import soundfile

import asdf
from tests.conftest import PATIENCE_S, ROOT
from tests.unit.conftest import small_settings, sound, write_small_network


@pytest.mark.slow
def test_the_script_scores_a_folder(tmp_path):
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    tables = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    script = ROOT / "puhti_slurm_scripts" / "other" / "score_on_ray.py"
    shutil.copy(script, tmp_path)
    network = write_small_network(tmp_path / "net.pt", small_settings())
    (tmp_path / "lake").mkdir()
    for number in range(3):
        path = tmp_path / "lake" / f"{number}.wav"
        soundfile.write(path, sound(9000 + 3000 * number, number), 16000)
    (tmp_path / "lake" / "broken.wav").write_bytes(b"RIFF")
    # Names of sockets have no room for a folder of pytest.
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT), "RAY_TMPDIR": "/tmp"}
    words = [sys.executable, "score_on_ray.py", str(network), str(tmp_path / "lake"), "scores"]
    ended = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    rows = tables.read_table(tmp_path / "scores").to_pylist()
    detector = asdf.Detector(network, "cpu", speech_check="off")
    assert len(rows) == 4
    for row in rows:
        if row["path"].endswith("broken.wav"):
            assert row["error"] and row["score"] != row["score"]
        else:
            expected = detector.score_whole(row["path"])
            assert row["score"] == pytest.approx(expected.score, abs=1e-4) and not row["error"]
