"""The layouts that are known by a map of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from asdf.interchange.name_maps.name_map import FLIPPED, NameMap

_BACK_END = "back_end."
_S3PRL = {"front_end.repeat_last_frame": True}

WEDEFENSE_MHFA = NameMap(
    name="WeDefense",
    kind="SSL_WeDefenseMHFA",
    layout="WeDefense: a self-supervised front end and MHFA on centred frames",
    marks=frozenset({"weights_k", "cmp_linear_k.weight", "projection.trans.2.weight"}),
    parts=(("", _BACK_END),),
    front_end="frontend.upstream.upstream.model.",
    conversions={
        "back_end.projection.trans.2.weight": FLIPPED,
        "back_end.projection.trans.2.bias": FLIPPED,
    },
    settings={**_S3PRL, "network.score": "difference"},
    bona_fide="the first output: its program sorts labels by name",
)

NAME_MAPS = (WEDEFENSE_MHFA,)


def name_map_of(names: Iterable[str]) -> NameMap | None:
    """Return the map whose layout these names of layers show; None of others."""
    names = set(names)
    matching = (each for each in NAME_MAPS if names >= each.marks)
    return next(matching, None)


def name_maps_by_kind() -> Mapping[str, NameMap]:
    """Return the maps by the names of our classes."""
    return {each.kind: each for each in NAME_MAPS}
