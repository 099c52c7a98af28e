"""Two branches, one of wav2vec 2.0 and one of LFCC, whose logits are weighed."""

import torch
from idea_attention import AttentionSettings, OverTime
from torch import nn

from asdf.networks import DetectorNetwork, LFCCFrontEnd, Wav2Vec2FrontEnd


class TwoBranches(DetectorNetwork):
    own_settings = AttentionSettings

    def __init__(self, settings):
        super().__init__(settings)
        self.learned = Wav2Vec2FrontEnd(settings.front_end)
        self.cepstra = LFCCFrontEnd.from_settings(settings)
        self.of_learned = OverTime(settings, self.learned)
        self.of_cepstra = OverTime(settings, self.cepstra)
        self.mix = nn.Parameter(torch.zeros(2))

    def forward(self, waveforms_BT):
        first = self.of_learned(self.learned(waveforms_BT))
        second = self.of_cepstra(self.cepstra(waveforms_BT))
        weights = self.mix.softmax(dim=0)
        logits_B2 = weights[0] * first[1] + weights[1] * second[1]
        return torch.cat([first[0], second[0]], dim=1), logits_B2

    def front_end_parameters(self):
        return self.learned.parameters()
