"""Augmentation of training examples, like the changes of speech on its way to a listener.

It includes tempo, noise, rooms, codecs, and classes of the user's own.
"""

from asdf.audio.augmentation.chain import Chain, open_chain
from asdf.audio.augmentation.filtering import source_samples
from asdf.audio.augmentation.part import Part

__all__ = ["Chain", "Part", "open_chain", "source_samples"]
