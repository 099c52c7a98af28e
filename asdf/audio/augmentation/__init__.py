"""What happens to speech on its way to a listener, done to training examples.

Another tempo, noise, a room, a codec.
"""

from asdf.audio.augmentation.chain import Chain, open_chain
from asdf.audio.augmentation.speed import source_samples

__all__ = ["Chain", "open_chain", "source_samples"]
