"""Self-attention over time, then attentive pooling, with scores per frame."""

from dataclasses import dataclass

from torch import nn

from asdf.networks import TimedBackEnd
from asdf.settings import OwnSettings, setting


@dataclass
class AttentionSettings(OwnSettings, section_name="attention"):
    """The attention over time."""

    width: int = setting(32, "values of a frame", at_least=4)
    heads: int = setting(4, "attention heads", at_least=1)


class OverTime(TimedBackEnd):
    own_settings = AttentionSettings

    def __init__(self, settings, front_end):
        super().__init__()
        width, heads = settings.attention.width, settings.attention.heads
        self.frame_dimension = width
        self.input = nn.Linear(front_end.dimension, width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True)
        self.score = nn.Linear(width, 1)
        self.output = nn.Linear(width, 2)

    def with_frames(self, features_BLC):
        frames_BLW = self.layer(self.input(features_BLC))
        weights_BL1 = self.score(frames_BLW).softmax(dim=1)
        embeddings_BW = (weights_BL1 * frames_BLW).sum(dim=1)
        return embeddings_BW, self.output(embeddings_BW), frames_BLW
