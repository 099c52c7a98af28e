"""Sets that other toolkits wrote, as corpora by name: WebDataset, lhotse, datasets, parquet."""

# First: it imports the files of this folder, whichever of them is asked for.
import asdf.corpora  # noqa: F401
