"""The folder of a run: whole files, its owner's mark, its log, its seeds, the record of what it ran on."""
