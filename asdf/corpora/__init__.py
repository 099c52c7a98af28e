"""Public corpora by name: their subsets, locations, and label files."""

# ruff: noqa: F401 (names for others)

from asdf.corpora.downloading import (
    download_record,
    hub_of,
    look_up_record,
    needs_request,
    records_of,
    unpack_archive,
)
from asdf.corpora.known_corpus import (
    KnownCorpus,
    Reading,
    files_in,
    first_there,
    is_recording,
    is_there,
    join_name,
    with_files,
)
from asdf.corpora.label_lists import choose_subset, columns_by_path, read_from, read_protocol
from asdf.corpora.registry import (
    ALIASES,
    FOLDER,
    KNOWN,
    Chosen,
    Located,
    StatedPart,
    as_list,
    choose,
    describe_origin,
    describe_overlaps,
    differences,
    find_tree,
    is_known,
    known_names,
    parse_located,
    parse_part,
    read_known,
    sharing,
)
from asdf.corpora.sets.own_data import SPLITS, has_class_folders, read_class_folders
from asdf.corpora.splitting import columns_from_names, split_trials
from asdf.trials.label_words import Columns
