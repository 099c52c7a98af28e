"""The commands of the hub: `detectors` lists networks there."""
