"""Paths in object stores and on servers: `s3://`, `gs://`, `hf://`, `https://`.

Other rooms import only this package. Stores are accessed through fsspec, with the credentials that
it finds; `asdf.archives` reads archives and recordings from a store.
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
