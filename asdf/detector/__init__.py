"""A trained network as a tool: point it at recordings, get scores. Floor 3."""

from asdf.detector.calibration import Calibration
from asdf.detector.detector import Detector
from asdf.detector.scored import Scored, WindowScore

__all__ = ["Calibration", "Detector", "Scored", "WindowScore"]
