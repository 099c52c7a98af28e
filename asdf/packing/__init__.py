"""Lists of recordings packed into tar shards that ASDF, webdataset and others read in place."""

# ruff: noqa: F401 (names for others)

from asdf.packing.encoding import FORMATS
from asdf.packing.packing import Pack, PackOptions, pack_list
from asdf.packing.sizes import parse_size
