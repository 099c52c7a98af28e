"""WaveFake: spoofs of several vocoders, in folders named after them."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from tests.unit.corpora.conftest import Lay, Read

SYSTEMS = {
    "ljspeech_full_band_melgan": ("ljspeech", "full_band_melgan", "en"),
    "jsut_multi_band_melgan": ("jsut", "multi_band_melgan", "ja"),
    "common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech": (
        "ljspeech",
        "common_voices_prompts_from_conformer_fastspeech2_pwg",
        "en",
    ),
}


@pytest.mark.parametrize("home", ["generated_audio/", ""])
def test_wavefake(lay: Lay, read: Read, home: str) -> None:
    root = lay(
        empty="".join(
            f"{home}{name}/gen 1.wav\n{home}{name}/._gen 1.wav\n" for name in SYSTEMS
        ).strip()
    )
    utterances, _ = read("wavefake", root)
    systems = sorted(SYSTEMS)
    assert (
        utterances.ids == [f"{home}{name}/gen 1.wav" for name in systems]
        and not utterances.labels.any()
    )
    assert utterances.columns == {
        "speaker": [SYSTEMS[name][0] for name in systems],
        "attack": systems,
        "vocoder": [SYSTEMS[name][1] for name in systems],
        "source": [SYSTEMS[name][0] for name in systems],
        "language": [SYSTEMS[name][2] for name in systems],
    }
    melgan, _ = read("wavefake:jsut_multi_band_melgan", root)
    assert melgan.ids == [f"{home}jsut_multi_band_melgan/gen 1.wav"] and melgan.columns[
        "language"
    ] == ["ja"]
    with pytest.raises(AsdfError, match="no recordings of subset 'jsut' found"):
        read("wavefake:jsut", root)
    # What the vocoders were trained on is no spoof.
    lay(empty=f"{home}LJSpeech-1.1/wavs/LJ001.wav\n{home}jsut_ver1.1/basic5000/wav/B.wav")
    assert read("wavefake", root)[0].ids == utterances.ids
