"""The world of processes: a run of one process is a world of one, so no caller branches on it."""
