"""Score a trial list exactly once, on any number of processes."""
