"""The processes of a run; a single process is a world of one, so callers need no special case."""
