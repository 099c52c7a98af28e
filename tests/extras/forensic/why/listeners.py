"""Networks that listen to what they are built for, so that right maps are known."""

import torch
from torch import nn

from asdf.networks.interface import Outputs


class Listener(nn.Module):
    """A network whose bona fide logit is what `listen` hears: (batch, samples) -> (batch,)."""

    def __init__(self, settings):
        super().__init__()
        # Not heard: it is there to be shuffled.
        self.weights = nn.Parameter(torch.linspace(-1, 1, 2 * 7).reshape(2, 7))

    def forward(self, waveforms_BT):
        heard_B = self.listen(waveforms_BT)
        logits_B2 = torch.stack([torch.zeros_like(heard_B), heard_B], dim=1)
        return Outputs(heard_B[:, None], logits_B2)


class OneStretch(Listener):
    """Hears the energy from 0.30 to 0.45 s."""

    def listen(self, waveforms_BT):
        return (waveforms_BT[:, 4800:7200] ** 2).sum(1)


class OneBand(Listener):
    """Hears the energy from 1,100 to 1,400 Hz, in all of the recording."""

    def listen(self, waveforms_BT):
        samples = waveforms_BT.shape[1]
        spectrum_BF = torch.fft.rfft(waveforms_BT)
        per_hz = samples / 16000
        heard_BF = spectrum_BF[:, round(1100 * per_hz) : round(1400 * per_hz)]
        return (heard_BF.abs() ** 2).sum(1) / samples


class Linear(Listener):
    """Weighs each sample by a weight of the network's, and one that time alone decides."""

    def listen(self, waveforms_BT):
        times_T = torch.arange(waveforms_BT.shape[1], dtype=torch.float64)
        return waveforms_BT @ torch.cos(times_T * 0.3).float()


class Learned(Listener):
    """Hears through a filter of its own weights, and weighs eighths of the recording by them."""

    def __init__(self, settings):
        super().__init__(settings)
        draws = torch.Generator().manual_seed(3)
        self.weights = nn.Parameter(torch.randn(1, 1, 33, generator=draws))
        self.parts = nn.Parameter(torch.randn(8, generator=draws))

    def listen(self, waveforms_BT):
        filtered_B1T = torch.conv1d(waveforms_BT[:, None], self.weights, padding=16)
        energies_B8 = torch.nn.functional.adaptive_avg_pool1d(filtered_B1T**2, 8)[:, 0]
        return energies_B8 @ self.parts


class Tangled(Listener):
    """Not linear: completeness of gradients is no matter of course."""

    def listen(self, waveforms_BT):
        return torch.tanh((waveforms_BT**2).mean(1) * 30) + torch.sin(waveforms_BT.sum(1) / 50)


class CutOff(Listener):
    """Gives no gradients."""

    def listen(self, waveforms_BT):
        with torch.no_grad():
            return waveforms_BT.square().mean(1)


class CutBefore(CutOff):
    """Gives its own weights gradients, and the samples none."""

    def listen(self, waveforms_BT):
        return super().listen(waveforms_BT) * self.weights.sum()


class LogEnergy(Listener):
    """Has no finite score of silence."""

    def listen(self, waveforms_BT):
        return waveforms_BT.square().mean(1).log()
