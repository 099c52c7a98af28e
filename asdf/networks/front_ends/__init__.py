"""Front ends, which map waveforms to features of frames; `front_end.py` has the base class."""
