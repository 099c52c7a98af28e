"""The default network of the original ASDF, with the names of its layers.

XLS-R stays frozen; behind it, convolutions with squeeze and excitation see windows of 20 frames,
which are pooled by statistics and then by attention. With the same weights it gives the logits of
the original. XLS-R runs without dropout here, also in training.

    network.network_class = 'asdf.networks.ComposedDetector'
    back_end.back_end_class = 'default_network.DefaultNetwork'
    front_end.frozen = True
"""

import torch
from torch import nn
from torch.nn.functional import selu

from asdf.networks import BackEnd


class Convolution(nn.Module):
    """Convolves the frames of each window."""

    def __init__(self, inputs, outputs, reach):
        super().__init__()
        self.bn = nn.BatchNorm2d(outputs)
        self.cnn = nn.Conv2d(inputs, outputs, (1, 2 * reach + 1), padding=(0, reach))

    def forward(self, x_BCWF):
        return selu(self.bn(self.cnn(x_BCWF)))


class Excitation(nn.Module):
    """Weights the channels by what their means say (squeeze and excitation)."""

    def __init__(self, channels):
        super().__init__()
        down = nn.Linear(channels, channels // 16, bias=False)
        up = nn.Linear(channels // 16, channels, bias=False)
        self.fc = nn.Sequential(down, nn.SELU(), up, nn.Sigmoid())

    def forward(self, x_BCWF):
        return x_BCWF * self.fc(x_BCWF.mean(dim=(2, 3)))[:, :, None, None]


class DefaultNetwork(BackEnd):
    """Windows of 20 frames, every second frame, with an attention over the windows."""

    def __init__(self, settings, front_end):
        super().__init__()
        self.LL, self.bn1 = nn.Linear(front_end.dimension, 128), nn.BatchNorm1d(128)
        self.cnn1, self.seLayer1 = Convolution(128, 128, reach=3), Excitation(128)
        self.cnn2, self.seLayer2 = Convolution(128, 128, reach=5), Excitation(128)
        self.LL2, self.bn2 = nn.Linear(4 * 128, 128), nn.BatchNorm1d(128)
        self.LLw, self.bnw1 = nn.Linear(front_end.dimension, 128), nn.BatchNorm1d(128)
        self.cnnw1 = Convolution(128, 1, reach=5)
        self.LL3, self.bn3 = nn.Linear(128, 128), nn.BatchNorm1d(128)
        self.LL4 = nn.Linear(128, 2)

    def forward(self, features_BLD):
        x_BCL = selu(self.bn1(self.LL(features_BLD).mT))
        x_BCWF = self.seLayer1(self.cnn1(x_BCL.unfold(2, 20, 2)))
        x_BCWF = self.seLayer2(self.cnn2(x_BCWF))
        deviation_BCW = x_BCWF.var(dim=3, correction=0).clamp(min=1e-6).sqrt()
        parts = [x_BCWF.mean(dim=3), x_BCWF.amax(dim=3), x_BCWF.amin(dim=3), deviation_BCW]
        x_BCW = selu(self.bn2(self.LL2(torch.cat(parts, dim=1).mT).mT))
        weights_BCL = selu(self.bnw1(self.LLw(features_BLD).mT))
        weights_BW = self.cnnw1(weights_BCL.unfold(2, 20, 2)).mean(dim=3)[:, 0].softmax(dim=1)
        pooled_BC = torch.einsum("bcw,bw->bc", x_BCW, weights_BW)
        embeddings_BE = selu(self.bn3(self.LL3(pooled_BC)))
        return embeddings_BE, self.LL4(embeddings_BE)  # column 1 is bona fide
