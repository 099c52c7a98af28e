"""A codec of an external program on training clips."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from asdf.audio.augmentation import Part
from asdf.settings import OwnSettings, setting

# Stands for a coder, such as ffmpeg: it rounds samples to 8 bits.
PROGRAM = """
import sys
import numpy as np
samples = np.frombuffer(sys.stdin.buffer.read(), np.float32)
sys.stdout.buffer.write((np.round(samples * 127) / 127).astype(np.float32).tobytes())
"""


@dataclass
class ExternalSettings(OwnSettings, section_name="external"):
    """A codec of an external program."""

    probability: float = setting(0.5, "part of the clips", at_least=0, at_most=1)


class External(Part):
    own_settings = ExternalSettings

    def __init__(self, settings, base):
        super().__init__(settings, base)
        self.probability = settings.external.probability

    def apply(self, clip, rng):
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, input=clip.tobytes(), capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.float32).copy()
