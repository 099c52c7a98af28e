"""What happens to speech on its way to a listener, done to training examples.

Another tempo, noise, a room, a codec, or what a class of the user's own does.
"""

from asdf.audio.augmentation.chain import Chain, open_chain
from asdf.audio.augmentation.part import Part
from asdf.audio.augmentation.speed import source_samples

__all__ = ["Chain", "Part", "open_chain", "source_samples"]
