"""The folder of a run: whole files, its owner's mark, its log, its seeds, records of its starts."""
