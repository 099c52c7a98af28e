"""Front ends: what turns waveforms into features, frame by frame. `front_end.py` is their base."""
