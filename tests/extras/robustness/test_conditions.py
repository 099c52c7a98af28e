"""Which conditions are chosen, and what is refused."""

import pytest

from asdf.errors import UsageError
from asdf.extras.robustness.degradations import Material
from asdf.extras.robustness.making import choose_conditions, parse_grades

MATERIAL = Material(speech=("a.wav", "b.wav"))


def names(only=(), grades=None) -> list[str]:
    return [c.name for c in choose_conditions(MATERIAL, only, grades)[0]]


def test_families_degradations_and_single_conditions_are_chosen() -> None:
    assert names(["white"]) == ["white_20", "white_10", "white_0"]
    assert names(["white_7.5", "landline"]) == ["landline", "white_7.5"]
    noise = names(["noise"])
    assert "babble_10" in noise and "music_10" not in noise and "noise_10" not in noise
    assert names(["mp3"], parse_grades(["mp3=16,8"])) == ["mp3_16", "mp3_8"]
    assert choose_conditions(MATERIAL, ["mp3_16"])[0][0].label == "mp3 16 kbit/s"


def test_what_cannot_be_done_is_named_with_the_reason(monkeypatch) -> None:
    _, left_out = choose_conditions(MATERIAL)
    assert left_out["noise"] == "--noise FOLDER names recordings for it"
    assert "PyAV" in left_out["amr-wb"]
    _, with_noise = choose_conditions(Material(("a", "b"), noise=("n.wav",)))
    assert "noise" not in with_noise
    monkeypatch.setattr("asdf.audio.augmentation.codecs.is_available", lambda name: False)
    _, left_out = choose_conditions(MATERIAL)
    for name in ("aac", "g722", "amr-nb", "mobile-call"):
        assert "FFmpeg has no encoder" in left_out[name]
    assert "mp3" not in left_out


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["whit"], "there is no degradation whit. Did you mean 'white'?"),
        (["white_loud"], "a number is needed after white_"),
        (["amr-wb"], "amr-wb is not offered"),
        (["encodec"], "no degradation is left to measure. encodec: --encodec FOLDER"),
        (["recorded-room"], "no degradation is left to measure. recorded-room: --rooms FOLDER"),
    ],
)
def test_mistakes_are_refused(only, message) -> None:
    with pytest.raises(UsageError) as caught:
        choose_conditions(MATERIAL, only)
    assert message in str(caught.value)


def test_grades_that_cannot_be_are_refused() -> None:
    for text in ("mp3", "landline=3", "mp4=3"):
        with pytest.raises(UsageError, match="a degradation with its grades, as in mp3=16,8"):
            parse_grades([text])
