"""The commands of the hub: `detectors`, which finds networks there, and `publish`."""
