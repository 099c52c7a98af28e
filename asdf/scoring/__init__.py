"""One scorer: for a list exactly once on any number of processes, for recordings and windows."""
