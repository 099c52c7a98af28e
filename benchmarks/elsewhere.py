"""Make the recordings from elsewhere on which the shipped detector is measured.

    python -m benchmarks.elsewhere PACKAGES SPOOFS ELSEWHERE

PACKAGES has the unpacked Debian packages ktuberling-data, asterisk-prompt-it-menardi-wav,
asterisk-prompt-fr-armelle and asterisk-prompt-es-co, whose voices are genuine. SPOOFS has speech of
synthesisers as ATTACK-NUMBER.wav; what was measured is in docs/reproduce.md. Genuine speech is
of two kinds: Vorbis at 16 kHz or more, and 8 kHz, mostly GSM. Each spoof takes both ways too.
"""

from __future__ import annotations

import io
import random
import sys
from math import gcd
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import resample_poly

RATE = 16_000
PHONE = 8_000
SOUNDS = "ktuberling-data/usr/share/ktuberling/sounds"
PROMPTS = ("asterisk-prompt-it-menardi-wav", "asterisk-prompt-fr-armelle", "asterisk-prompt-es-co")
# The longest of a folder are still of a word or two.
PER_LANGUAGE, LEAST_S = 7, 0.9
PER_VOICE, LEAST_PROMPT_S = 25, 1.5


def main(arguments: list[str]) -> int:
    """Write the recordings, their list and their protocol; return 0."""
    packages, spoofs, out = map(Path, arguments)
    (out / "set").mkdir(parents=True, exist_ok=True)
    random.seed(1)
    rows: list[tuple[str, str, str, str]] = []

    def write(name: str, samples: np.ndarray, speaker: str, kind: str, attack: str = "-") -> None:
        soundfile.write(out / "set" / f"{name}.flac", np.clip(samples, -1, 1), RATE)
        rows.append((speaker, name, kind, attack))

    for folder in sorted((packages / SOUNDS).iterdir()):
        if folder.is_dir() and "@" not in folder.name:
            chosen = choose([folder], ("ogg", "wav"), PER_LANGUAGE, LEAST_S, RATE)
            for number, (samples, rate) in enumerate(chosen):
                name = f"kt-{folder.name}"
                write(f"{name}-{number}", resample(samples, rate, RATE), name, "wide")
    for package in PROMPTS:
        chosen = choose([packages / package], ("wav", "gsm"), PER_VOICE, LEAST_PROMPT_S, 0)
        for number, (samples, rate) in enumerate(chosen):
            write(f"{package}-{number}", resample(samples, rate, RATE), package, "phone")
    for path in sorted(spoofs.glob("*.wav")):
        attack, _, spoken = path.stem.partition("-")
        samples, rate = read(path)
        wide = through(samples, rate, "OGG", "VORBIS", 22_050)
        write(f"{path.stem}-wide", wide, attack, "wide", attack)
        codec = "GSM610" if int(spoken) % 3 else "PCM_16"
        phone = through(samples, rate, "WAV", codec, PHONE)
        write(f"{path.stem}-phone", phone, attack, "phone", attack)
    trials, protocol = "", ""
    for speaker, name, kind, attack in rows:
        trials += f"set/{name}.flac {int(attack == '-')}\n"
        label = "bonafide" if attack == "-" else "spoof"
        protocol += f"{speaker} {name} {kind} {attack} {label}\n"
    (out / "list.txt").write_text(trials)
    (out / "protocol.txt").write_text(protocol)
    return 0


def choose(
    folders: list[Path], suffixes: tuple[str, ...], count: int, least_s: float, least_rate: int
) -> list[tuple[np.ndarray, int]]:
    """Return random recordings that are long enough, with their rates."""
    paths = []
    for suffix in suffixes:
        paths += [path for folder in folders for path in sorted(folder.rglob(f"*.{suffix}"))]
    random.shuffle(paths)
    chosen: list[tuple[np.ndarray, int]] = []
    for path in paths:
        samples, rate = read(path)
        if len(chosen) < count and samples.size >= least_s * rate and rate >= least_rate:
            chosen.append((samples, rate))
    return chosen


def read(path: Path) -> tuple[np.ndarray, int]:
    """Return the samples of a file, channels averaged, and their rate."""
    if path.suffix == ".gsm":
        raw = {"format": "RAW", "subtype": "GSM610", "samplerate": PHONE, "channels": 1}
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True, **raw)
    else:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return samples.mean(1), rate


def resample(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Return samples at another rate."""
    if rate == wanted:
        return samples
    common = gcd(rate, wanted)
    return resample_poly(samples, wanted // common, rate // common).astype(np.float32)


def through(samples: np.ndarray, rate: int, kind: str, codec: str, coded: int) -> np.ndarray:
    """Return samples at 16 kHz that went through a codec at the rate `coded`."""
    file = io.BytesIO()
    content = np.clip(resample(samples, rate, coded), -1, 1)
    soundfile.write(file, content, coded, format=kind, subtype=codec)
    file.seek(0)
    return resample(soundfile.read(file, dtype="float32")[0], coded, RATE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
