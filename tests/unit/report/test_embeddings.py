"""The picture of embeddings: what it says without colours and scripts, and the page with it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from asdf.report.embedding_pictures import embedding_section, points_svg
from asdf.tasks.embeddings.embedding_files import Embeddings
from asdf.tasks.embeddings.pictures import COLOURS, SHAPES, embedding_picture
from asdf.trials.trial_list import TrialList

SVG = "{http://www.w3.org/2000/svg}"


def made(values, count=40):
    rng = np.random.default_rng(0)
    column = [values[index % len(values)] for index in range(count)]
    ids = [f"u{index}" for index in range(count)]
    trials = TrialList(ids, np.arange(count) % 2, columns={"attack": column})
    embeddings = rng.normal(size=(count, 5)).astype(np.float32)
    return Embeddings(trials, embeddings, np.zeros(count, np.float32))


def test_groups_differ_by_shape_and_colour():
    picture = embedding_picture(made(["A", "B", "C", "D", "E", "F", "G", "H"]), "attack")
    assert [group.shape for group in picture.groups] == list(SHAPES)
    assert [group.colour for group in picture.groups] == list(COLOURS)
    assert sum(group.count for group in picture.groups) == 40


def test_many_values_are_put_together():
    values = [f"A{index:02}" for index in range(20)] + [""]
    picture = embedding_picture(made(values, 210), "attack")
    counts = {group.name: group.count for group in picture.groups}
    assert len(counts) == 8
    assert counts["other"] == 140
    assert sum(counts.values()) == 210


def test_the_svg_is_sound_and_says_what_it_shows():
    embeddings = made(["<b>&", "x\x1b"])
    svg = points_svg(embedding_picture(embeddings, "attack"))
    assert svg == points_svg(embedding_picture(embeddings, "attack"))
    root = ElementTree.fromstring(svg)
    assert root.find(f"{SVG}title").text == "40 embeddings by attack, principal components"
    assert "<b>&: 20" in root.find(f"{SVG}desc").text
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[0] == "<b>&: 20" and "of the variance" in texts[-1]
    width, height = map(float, root.get("viewBox").split()[2:])
    for path in root.iter(f"{SVG}path"):
        for mark in path.get("d").split("M")[1:]:
            x, y = map(float, mark.split("m")[0].split())
            assert 0 <= x <= width and 0 <= y <= height


def test_the_section_of_the_page_has_the_numbers():
    section = embedding_section("dev", made(["A", "B"]), "attack", "pca")
    assert section.svg.startswith("<svg")
    assert [[cell.shown for cell in row] for row in section.table.rows] == [
        ["A", "circle", "20"],
        ["B", "square", "20"],
    ]


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_points_that_are_alike_are_drawn(value):
    embeddings = made(["A"])
    embeddings.embeddings_NE[:] = value
    ElementTree.fromstring(points_svg(embedding_picture(embeddings, "attack")))
