"""RawBoost on four seconds: ASDF, the published formulas with scipy, and audiomentations.

The peer is RawBoost (Tak et al., ICASSP 2022) as the field's scripts have it: firwin, freqz and
lfilter, one notch and one order after the other. Both sides get the same draws, and making the
draws is in both times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from asdf.audio.rawboost import Draws, Notches, boost, draw
from asdf.settings.sections import RawBoost
from benchmarks.harness import has, in_turns
from benchmarks.rows import Row, compared, unmeasured

SAMPLES = 64600
ALWAYS = RawBoost(enabled=True, applyingRatio=1.0)
KINDS = ("LnL", "ISD", "SSI", "1+2+3", "1+2", "1+3", "2+3", "1 and 2 parallel")
TARGETS = {1: 8.0, 4: 8.0, 5: 8.0}
PEER = "published formulas, scipy"


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds per waveform, for algorithms 1 to 8."""
    waveform = (0.1 * np.random.default_rng(0).standard_normal(SAMPLES)).astype(np.float32)
    for algo, kind in enumerate(KINDS, 1):
        what, target = f"algorithm {algo}, {kind}", TARGETS.get(algo)
        if not has("scipy"):
            yield unmeasured(what, "ms", PEER, "scipy is not installed", target)
            continue
        settings = replace(ALWAYS, algo=algo)
        functions = {
            "asdf": _repeated(boost, waveform, settings),
            "peer": _repeated(published, waveform, settings),
        }
        times = in_turns(functions, 3 if quick else 40, calls=1 if quick else 5)
        yield compared(what, "ms", _ms(times["asdf"]), PEER, _ms(times["peer"]), target=target)
    yield _audiomentations(waveform, quick)


def published(waveform: np.ndarray, draws: Draws, settings: RawBoost) -> np.ndarray:
    """Return `waveform` (T,) with the drawn noises, computed as published."""
    if settings.algo == 8:
        assert draws.lnl is not None
        return _limited(
            _convolutive(waveform, draws.lnl) + _impulsive(waveform, draws, settings.g_sd)
        )
    if draws.lnl is not None:
        waveform = _convolutive(waveform, draws.lnl)
    if draws.isd is not None:
        waveform = _impulsive(waveform, draws, settings.g_sd)
    if draws.ssi is not None:
        noise = _filtered(draws.ssi.white, _coefficients(draws.ssi.notches, 0))
        noise = _normalised(noise)
        noise = (
            noise
            / np.linalg.norm(noise, 2)
            * np.linalg.norm(waveform, 2)
            / 10.0 ** (0.05 * draws.ssi.snr_db)
        )
        waveform = waveform + noise
    return waveform


def _convolutive(waveform: np.ndarray, notches: Notches) -> np.ndarray:
    total = np.zeros(len(waveform))
    for order in range(len(notches.gains_db)):
        total = total + _filtered(np.power(waveform, order + 1), _coefficients(notches, order))
    return _limited(total - np.mean(total))


def _impulsive(waveform: np.ndarray, draws: Draws, gain: float) -> np.ndarray:
    assert draws.isd is not None
    output, places = np.array(waveform), draws.isd.positions
    output[places] = waveform[places] + gain * waveform[places] * draws.isd.factors
    return _limited(output)


def _coefficients(notches: Notches, order: int) -> np.ndarray:
    from scipy import signal

    product = np.ones(1)
    for centre, width, taps in zip(
        *(a[order] for a in (notches.centres_hz, notches.widths_hz, notches.taps)), strict=True
    ):
        low, high = centre - width / 2, centre + width / 2
        band = [low if low > 0 else 1e-3, high if high < 8000 else 8000 - 1e-3]
        product = np.convolve(signal.firwin(int(taps), band, window="hamming", fs=16000), product)
    _, response = signal.freqz(product, 1, fs=16000)
    return np.asarray(10 ** (notches.gains_db[order] / 20) * product / np.abs(response).max())


def _filtered(waveform: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    from scipy import signal

    delay = len(coefficients) + 1
    output = signal.lfilter(coefficients, 1, np.pad(waveform, (0, delay), "constant"))
    return np.asarray(output[delay // 2 : len(output) - (delay + 1) // 2])


def _limited(waveform: np.ndarray) -> np.ndarray:
    return _normalised(waveform) if np.abs(waveform).max() > 1 else waveform


def _normalised(waveform: np.ndarray) -> np.ndarray:
    return waveform / np.abs(waveform).max()


def _repeated(
    apply: Callable[..., np.ndarray], waveform: np.ndarray, settings: RawBoost
) -> Callable[[], np.ndarray]:
    """Return a function that draws and applies; both sides get the same sequence of draws."""
    seeds = count()
    return lambda: apply(
        waveform, draw(SAMPLES, settings, np.random.default_rng(next(seeds))), settings
    )


def _audiomentations(waveform: np.ndarray, quick: bool) -> Row:
    what, against = "algorithm 3, SSI", "audiomentations AddColorNoise"
    if not has("audiomentations"):
        return unmeasured(what, "ms", against, "audiomentations is not installed")
    from audiomentations import AddColorNoise

    peer = AddColorNoise(p=1.0)
    functions = {
        "asdf": _repeated(boost, waveform, replace(ALWAYS, algo=3)),
        "peer": lambda: peer(samples=waveform, sample_rate=16000),
    }
    times = in_turns(functions, 3 if quick else 40, calls=1 if quick else 5)
    note = "noise of a random slope instead of random notches; audiomentations has no RawBoost"
    return compared(what, "ms", _ms(times["asdf"]), against, _ms(times["peer"]), note=note)


def _ms(seconds: list[float]) -> list[float]:
    return [1000 * duration for duration in seconds]
