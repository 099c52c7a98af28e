"""Recordings in tars and parquet files, and sets of other toolkits, read in place."""
