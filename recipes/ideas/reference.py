"""A network that hears a second recording beside each one.

It may be genuine speech of the same speaker, or a spoof of a known attack (reference-augmented
training, arXiv 2606.10908). The column `reference` of a list names it.

    network.network_class = 'reference.BesideReference'
    front_end.architecture = 'tiny'
"""

import torch
from torch import nn

from asdf.networks import DetectorNetwork, Wav2Vec2FrontEnd


class BesideReference(DetectorNetwork):
    further_inputs = ("references",)

    def __init__(self, settings):
        super().__init__(settings)
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.output = nn.Linear(2 * self.front_end.dimension, 2)

    def forward(self, waveforms_BT, references=None):  # both (batch, samples)
        if references is None:  # an exported graph has one input
            references = torch.zeros_like(waveforms_BT)
        means = [self.front_end(each).mean(dim=1) for each in (waveforms_BT, references)]
        embeddings_BE = torch.cat(means, dim=1)
        return embeddings_BE, self.output(embeddings_BE)
