"""The world of processes: a run of one process is a world of one, so nothing above asks how many there are."""
