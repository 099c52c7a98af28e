"""Pretraining: frames of log-mel that were hidden are filled in; its encoder goes on."""

import copy
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from asdf.interchange import read_network
from asdf.networks import DetectorNetwork, FrontEnd, LogMelFrontEnd
from asdf.training.steps import TrainingStep

HIDDEN = 0.3
WIDTH = 32


class Encoder(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.input = nn.Linear(dimension, WIDTH)
        self.recurrent = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)

    def forward(self, features_BLC):
        return self.recurrent(self.input(features_BLC))[0]


class Filling(DetectorNetwork):
    def __init__(self, settings):
        super().__init__(settings)
        self.log_mel = LogMelFrontEnd.from_settings(settings)
        self.encoder = Encoder(self.log_mel.dimension)
        self.decoder = nn.Linear(2 * WIDTH, self.log_mel.dimension)
        self.output = nn.Linear(2 * WIDTH, 2)

    def forward(self, waveforms_BT):
        features_BLC = self.log_mel(waveforms_BT)
        kept_BL1 = torch.ones_like(features_BLC[:, :, :1])
        if self.training:
            kept_BL1 = (torch.rand_like(kept_BL1) > HIDDEN).float()
        encoded_BLE = self.encoder(features_BLC * kept_BL1)
        errors_BLC = (self.decoder(encoded_BLE) - features_BLC) ** 2 * (1 - kept_BL1)
        embeddings_BE = torch.cat([errors_BLC.mean(dim=(1, 2))[:, None], encoded_BLE.mean(1)], 1)
        return embeddings_BE, self.output(encoded_BLE.mean(dim=1))


class FillIn(TrainingStep):
    takes_unlabelled = True
    divides_window = True

    def compute_gradient(self, window):
        window.backward(loss=lambda outputs, minibatch: outputs.embeddings[:, 0] / len(window))


class Pretrained(FrontEnd):
    window = 400
    hop = 160
    dimension = 2 * WIDTH

    def make_model(self, settings):
        # The log-mel front end takes no weights.
        plain = replace(settings, weights=None)
        sections = copy.copy(self.sections)
        sections.front_end = plain
        log_mel = LogMelFrontEnd(plain, sections)
        return nn.ModuleDict({"log_mel": log_mel, "encoder": Encoder(log_mel.dimension)})

    def load_weights(self, weights):
        network, _ = read_network(weights, folder=Path(__file__).parent)
        self.model["encoder"].load_state_dict(network.encoder.state_dict())

    def states(self, waveforms_BT):
        yield self.mask(self.model["encoder"](self.model["log_mel"](waveforms_BT)))
