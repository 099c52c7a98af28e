"""Points of embeddings against scikit-learn, and that they stay the same."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from asdf.errors import AsdfError, UsageError
from asdf.tasks.embeddings.projection import choose_points, principal_components, project

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(60, 12)) * np.linspace(3, 0.1, 12)


def test_principal_components_are_those_of_scikit_learn():
    model = PCA(2)
    expected = model.fit_transform(VALUES)
    points, proportions = principal_components(VALUES)
    # Up to the direction of each axis.
    signs = np.sign((points * expected).sum(axis=0))
    np.testing.assert_allclose(points, expected * signs, atol=1e-10)
    np.testing.assert_allclose(proportions, model.explained_variance_ratio_, rtol=1e-10)
    np.testing.assert_allclose(project(VALUES), points)


def test_an_axis_points_to_its_largest_weight():
    points, _ = principal_components(np.array([[0.0, 0.0], [-4.0, 1.0], [-8.0, 2.0], [-12.0, 3.0]]))
    # The first weight is the largest: along it, the points go down.
    assert (np.diff(points[:, 0]) < 0).all()
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-12)


def test_alike_embeddings_are_one_point():
    points, proportions = principal_components(np.ones((5, 3)))
    assert not points.any() and not proportions.any()


def test_neighbours_stay_neighbours_and_the_points_the_same():
    """Of t-SNE; UMAP compiles for minutes on a busy machine before it draws."""
    clusters = np.repeat([-20.0, 20.0], 20)[:, None] + RNG.normal(size=(40, 5))
    points = project(clusters, "tsne")
    assert np.array_equal(points, project(clusters, "tsne"))
    spread = max(points[:20].std(axis=0).max(), points[20:].std(axis=0).max())
    apart = np.linalg.norm(points[:20].mean(axis=0) - points[20:].mean(axis=0))
    assert apart > 2 * spread


def test_points_are_chosen_by_their_names():
    ids = [f"u{index}" for index in range(100)]
    chosen = choose_points(ids, 10)
    assert len(chosen) == 10 and (np.diff(chosen) > 0).all()
    names = {ids[index] for index in chosen}
    assert {ids[::-1][index] for index in choose_points(ids[::-1], 10)} == names
    assert choose_points(ids, 100).tolist() == list(range(100))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(AsdfError, match="four embeddings or more"):
        project(VALUES[:3])
    with pytest.raises(UsageError, match="no method 'mds'"):
        project(VALUES, "mds")
