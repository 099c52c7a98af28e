"""The layouts of MUSAN and RIRS_NOISES as they are unpacked, in small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asdf.audio.augmentation.acoustics import find_material
from asdf.errors import UsageError


def make(base: Path, *names: str) -> None:
    for name in names:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def relative(paths: tuple[str, ...], base: Path) -> list[str]:
    return [Path(path).relative_to(base).as_posix() for path in paths]


@pytest.fixture
def musan(tmp_path: Path) -> Path:
    make(
        tmp_path / "musan",
        "README",
        "noise/free-sound/noise-free-sound-0001.wav",
        "noise/free-sound/noise-free-sound-0000.wav",
        "noise/free-sound/ANNOTATIONS",
        "noise/free-sound/._noise-free-sound-0000.wav",
        "music/fma/music-fma-0000.wav",
        "speech/librivox/speech-librivox-0000.wav",
        "speech/librivox/LICENSE",
    )
    return tmp_path


@pytest.fixture
def rirs(tmp_path: Path) -> Path:
    base = tmp_path / "RIRS_NOISES"
    make(
        base,
        "simulated_rirs/smallroom/Room001/Room001-00001.wav",
        "simulated_rirs/smallroom/Room002/Room002-00001.wav",
        "simulated_rirs/smallroom/Room002/not-listed.wav",
        "simulated_rirs/largeroom/Room001/Room001-00001.wav",
        "real_rirs_isotropic_noises/RVB2014_type1_rir_largeroom1_near_angla.wav",
        "real_rirs_isotropic_noises/RVB2014_type1_noise_largeroom1_1.wav",
        "real_rirs_isotropic_noises/air_type1_air_binaural_aula_carolina_0_1_3.wav",
        "pointsource_noises/noise-free-sound-0000.wav",
    )
    small = base / "simulated_rirs/smallroom"
    lines = []
    for room in ("Room001", "Room002"):
        path = f"RIRS_NOISES/simulated_rirs/smallroom/{room}/{room}-00001.wav"
        lines.append(f"--rir-id small-{room} --room-id small-{room} {path}")
    (small / "rir_list").write_text("\n".join(lines) + "\n")
    return tmp_path


def list_real(rirs: Path) -> None:
    real = rirs / "RIRS_NOISES/real_rirs_isotropic_noises"
    inside = "RIRS_NOISES/real_rirs_isotropic_noises"
    (real / "rir_list").write_text(
        f"--rir-id 00001 --room-id 1 {inside}/RVB2014_type1_rir_largeroom1_near_angla.wav\n"
        f"--rir-id 00002 --room-id 2 {inside}/air_type1_air_binaural_aula_carolina_0_1_3.wav\n"
    )
    (real / "noise_list").write_text(
        "--noise-id 1 --noise-type isotropic --room-linkage 1 "
        + f"{inside}/RVB2014_type1_noise_largeroom1_1.wav\n"
    )


def test_all_recordings_of_musan_or_of_a_part_of_it(musan):
    assert relative(find_material("noise", ["musan"], musan), musan / "musan") == [
        "music/fma/music-fma-0000.wav",
        "noise/free-sound/noise-free-sound-0000.wav",
        "noise/free-sound/noise-free-sound-0001.wav",
        "speech/librivox/speech-librivox-0000.wav",
    ]
    parts = find_material("noise", ["musan/noise", str(musan / "musan" / "music")], Path(musan))
    assert [Path(path).name for path in parts] == [
        "noise-free-sound-0000.wav",
        "noise-free-sound-0001.wav",
        "music-fma-0000.wav",
    ]


@pytest.mark.parametrize("listed", [True, False])
def test_impulse_responses_are_separated_from_the_noises_next_to_them(rirs, listed):
    if listed:
        list_real(rirs)
    assert relative(
        find_material("reverberation", ["RIRS_NOISES"], rirs), rirs / "RIRS_NOISES"
    ) == [
        "real_rirs_isotropic_noises/RVB2014_type1_rir_largeroom1_near_angla.wav",
        "real_rirs_isotropic_noises/air_type1_air_binaural_aula_carolina_0_1_3.wav",
        "simulated_rirs/largeroom/Room001/Room001-00001.wav",
        "simulated_rirs/smallroom/Room001/Room001-00001.wav",
        "simulated_rirs/smallroom/Room002/Room002-00001.wav",
    ]


def test_noises_are_separated_from_the_impulse_responses_next_to_them(rirs):
    list_real(rirs)
    folders = ["RIRS_NOISES/pointsource_noises", "RIRS_NOISES/real_rirs_isotropic_noises"]
    names = [Path(path).name for path in find_material("noise", folders, rirs)]
    assert names == ["noise-free-sound-0000.wav", "RVB2014_type1_noise_largeroom1_1.wav"]


def test_listed_impulse_responses_are_no_noises_and_the_other_way_round(rirs):
    list_real(rirs)
    base = rirs / "RIRS_NOISES"
    make(base, "simulated_rirs/largeroom/rir_list", "pointsource_noises/second.wav")
    (base / "pointsource_noises/noise_list").write_text(
        "".join(
            f"--noise-id {n} RIRS_NOISES/pointsource_noises/{n}.wav\n"
            for n in ("noise-free-sound-0000", "second")
        )
    )
    assert relative(find_material("noise", ["RIRS_NOISES"], rirs), base) == [
        "pointsource_noises/noise-free-sound-0000.wav",
        "pointsource_noises/second.wav",
        "real_rirs_isotropic_noises/RVB2014_type1_noise_largeroom1_1.wav",
    ]
    assert "pointsource_noises/second.wav" not in relative(
        find_material("reverberation", ["RIRS_NOISES"], rirs), base
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list any folder")
def test_a_folder_that_cannot_be_listed_is_not_passed_over(musan):
    closed = musan / "musan" / "music"
    closed.chmod(0)
    try:
        with pytest.raises(UsageError, match=f"cannot list the folder {closed}: Permission denied"):
            find_material("noise", ["musan"], musan)
    finally:
        closed.chmod(0o700)


def test_a_folder_that_is_missing_or_empty_is_named(musan):
    with pytest.raises(UsageError) as caught:
        find_material("noise", ["musan", "muson"], musan)
    assert str(caught.value) == (
        f"augmentation.noise_folders names {musan / 'muson'}, which does not exist. Unpack the "
        "corpus there, or correct the path: it is relative to paths.database_folder."
    )
    with pytest.raises(
        UsageError,
        match=r"reverberation_folders names .*noise, which holds no room impulse responses",
    ):
        find_material("reverberation", ["musan/noise"], musan)
    (musan / "empty").mkdir()
    with pytest.raises(
        UsageError, match=r"noise_folders names .*empty, which holds no recordings of noise"
    ):
        find_material("noise", ["empty"], musan)
