"""Projection of embeddings to two dimensions: principal components, t-SNE, UMAP.

Invariant: the same embeddings give the same points. Only principal components preserve distances,
as far as two dimensions allow; the others show neighbours and exaggerate clusters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.errors import AsdfError, UsageError

METHODS = ("pca", "tsne", "umap")
SEED = 0
MAX_POINTS = 5000
"""Maximum number of points: more hide each other, and t-SNE takes minutes for them."""

# The defaults of scikit-learn and umap-learn.
_PERPLEXITY = 30
_NEIGHBOURS = 15

Points = Floats


def project(embeddings_NE: np.ndarray, method: str = "pca") -> Points:
    """Return a point (N, 2) for each embedding.

    Raises:
        UsageError: no such method, or its package is not installed.
        AsdfError: there are fewer than four embeddings.
    """
    if len(embeddings_NE) < 4:
        raise AsdfError(f"a picture needs four embeddings or more, not {len(embeddings_NE)}.")
    values_NE = np.asarray(embeddings_NE, np.float64)
    if method == "pca":
        return principal_components(values_NE)[0]
    if method == "tsne":
        return _tsne(values_NE)
    if method == "umap":
        return _umap(values_NE)
    raise UsageError(f"there is no method {method!r}: choose {', '.join(METHODS)}.")


def principal_components(values_NE: Points, count: int = 2) -> tuple[Points, Floats]:
    """Return coordinates (N, count) along the axes of largest variance, with their proportions.

    The sign of an axis makes its largest weight positive. Missing axes are zeros.
    """
    centred_NE = values_NE - values_NE.mean(axis=0)
    _, sizes, axes_RE = np.linalg.svd(centred_NE, full_matrices=False)
    axes_CE = axes_RE[:count]
    # LAPACK leaves the sign of an axis open, and another version might turn the plot round.
    largest = np.abs(axes_CE).argmax(axis=1)
    signs = np.sign(axes_CE[np.arange(len(axes_CE)), largest])
    points = np.zeros((len(values_NE), count))
    points[:, : len(axes_CE)] = centred_NE @ (axes_CE * signs[:, None]).T
    variances = sizes**2
    total = variances.sum()
    proportions = np.zeros(count)
    if total > 0:
        proportions[: len(axes_CE)] = (variances / total)[:count]
    return points, proportions


def choose_points(ids: Sequence[str], limit: int = MAX_POINTS) -> Integers:
    """Return the indices of up to `limit` trials, chosen by their ids alone."""
    if len(ids) <= limit:
        return np.arange(len(ids))
    digests = []
    for index, utterance in enumerate(ids):
        # A hash mixes ids, which often sort by speaker or attack. They may hold bytes that are not
        # UTF-8.
        digest = hashlib.sha256(utterance.encode("utf-8", "surrogateescape")).digest()
        digests.append((digest, index))
    chosen = sorted(digests)[:limit]
    return np.sort(np.array([index for _, index in chosen], np.int64))


def _tsne(values_NE: Points) -> Points:
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise _missing("scikit-learn") from None
    # As bhtsne, the authors' program, requires: three other points per unit of perplexity.
    perplexity = min(_PERPLEXITY, (len(values_NE) - 1) / 3)
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=SEED)
    return np.asarray(model.fit_transform(values_NE), np.float64)


def _umap(values_NE: Points) -> Points:
    try:
        from umap import UMAP
    except ImportError:
        raise _missing("umap-learn") from None
    neighbours = min(_NEIGHBOURS, len(values_NE) - 1)
    # The spectral start fails with few points; with a seed, UMAP computes in one thread anyway.
    start = "spectral" if len(values_NE) > 2 * _NEIGHBOURS else "random"
    model = UMAP(n_neighbors=neighbours, random_state=SEED, n_jobs=1, init=start)
    return np.asarray(model.fit_transform(values_NE), np.float64)


def _missing(package: str) -> UsageError:
    return UsageError(
        f"this needs {package}, which is not installed: pip install "
        "'asdf-antispoofing[embeddings]'. --method pca needs no other package."
    )
