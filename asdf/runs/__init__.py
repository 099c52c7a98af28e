"""The folder of a run: atomic files, the owner's lock, the log, seeds, records of its starts."""
