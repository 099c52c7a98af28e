"""The known detector most similar to an unknown file, in terms of the file's layer names.

Invariant: only names of layers are compared, so that the sentence is true of any file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from asdf.checkpoint.fitting import PUBLISHED_FRONT_ENDS
from asdf.extras.zoo.layouts.name_maps.known import NAME_MAPS, name_maps_by_kind
from asdf.networks.autocast import without_numbers
from asdf.networks.build import build_network
from asdf.settings.sections import Sections
from asdf.text import and_more, shorten

# Proportion of all layer kinds of both; a lower similarity is not meaningful.
_ALIKE = 0.2
_SHOWN = 3
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_BACK_END = "back_end."
# Files have various prefixes before the names of a front end's layers, but these are in all of
# them.
_ENCODER = re.compile(
    r"(feature_extractor\.conv_layers|post_extract_proj|feature_projection|encoder\.layers?\."
    r"|encoder\.pos_conv|encoder\.layer_norm|transformer\.|quantizer|project_q|final_proj"
    r"|mask_emb|masked_spec_embed)"
)
_FRONT_ENDS = (
    *PUBLISHED_FRONT_ENDS,
    *(name_map.front_end for name_map in NAME_MAPS if name_map.front_end),
)


def describe_nearest(names: Iterable[str], layouts: Mapping[str, str]) -> str:
    """Return a sentence on the known detector with the most similar layers; '' for none.

    Args:
        layouts: Names of known detectors, by the names of our classes.
    """
    kinds = _kinds_of(names)
    best = ""
    likeness = _ALIKE
    for name in layouts:
        known = _kinds_of_class(name)
        # Of the kinds of both: a large file would contain the kinds of many small networks.
        share = len(kinds & known) / max(len(kinds | known), 1)
        if share > likeness:
            best, likeness = name, share
    if not best:
        return ""
    known = _kinds_of_class(best)
    there = len(kinds & known)
    sentence = (
        f" The nearest is {layouts[best]}: of its {len(known)} kinds of layers behind a front end "
        f"{there} are there"
    )
    for words, others in (("missing are", known - kinds), ("others are", kinds - known)):
        if others:
            shown = [shorten(other) for other in sorted(others)]
            sentence += f"; {words} {and_more(shown, _SHOWN)}"
    return sentence + "."


def _kinds_of(names: Iterable[str]) -> frozenset[str]:
    """Return names without layer numbers, excluding those of a front end."""
    kinds = set()
    for name in names:
        if not (name.startswith(_FRONT_ENDS) or _ENCODER.search(name)):
            kinds.add(_NUMBER.sub("N", name.removeprefix(_BACK_END)))
    return frozenset(kinds)


@cache
def _kinds_of_class(name: str) -> frozenset[str]:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{name}"
    # Names do not depend on sizes.
    settings.front_end.architecture = "tiny"
    with without_numbers():
        names = list(build_network(settings).state_dict())
    name_map = name_maps_by_kind().get(name)
    has_front_end = any(each.startswith("front_end.") for each in names)
    heads = [each for each in names if not has_front_end or each.startswith(_BACK_END)]
    if name_map is not None:
        heads = [name_map.their_name(each) or each for each in heads]
    return _kinds_of(heads)
