"""Paths that lie in object stores and on servers: `s3://`, `gs://`, `hf://`, `https://`.

Other rooms use this door alone. What reaches a store is fsspec, with the credentials that it finds;
what reads archives and recordings out of a store is `asdf.archives`.
"""

# ruff: noqa: F401 (names for others)

from asdf.remote.addresses import (
    SHOWN_SCHEMES,
    can_be_listed,
    refuse_unwritable,
)
from asdf.remote.paths import RemotePath, address_of, as_path, is_remote, join_path
from asdf.remote.stores import (
    ObjectState,
    Range,
    download_object,
    find_objects,
    list_objects,
    object_state,
    object_states,
    read_object,
    read_objects,
    read_start,
    read_whole,
    remove_objects,
    upload_object,
)
