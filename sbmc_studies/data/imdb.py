"""IMDb, the paper's text data set: movie reviews as sentence embeddings, for a linear head."""

from __future__ import annotations

from os import PathLike

from torch import Tensor

from sbmc.datasets.bundle import DataBundle
from sbmc_studies.data.features import FeatureFile, load_features

DESCRIPTION = "IMDb reviews as sentence embeddings; product reviews, metadata, lorem ipsum outside"


def _decode(values: Tensor, scale: Tensor) -> Tensor:
    return values.mul_(scale)


SOURCE = FeatureFile(
    name="imdb",
    file="imdb_mpnet.npz",
    sha256="48944c44f8bd59a86e86bb37186de9b2b53ee3cacba70748210eaeb0c6343813",
    width=768,
    classes=2,
    groups=("reviews", "meta", "lipsum", "full_reviews", "full_meta"),
    decode=_decode,
    about=(
        "It holds the IMDb reviews (Large Movie Review Dataset v1.0, 25,000 to train and 25,000 to "
        "test) as embeddings of sentence-transformers' all-mpnet-base-v2, 768 numbers each, and "
        "five groups of other texts, and cannot be fetched. `sbmc embed text` computes such "
        "embeddings; as arrays x_train, y_train, x_test, y_test and ood_reviews, ood_meta, "
        "ood_lipsum, ood_full_reviews, ood_full_meta in one .npz file they are what is needed."
    ),
)
FILE = SOURCE.file


def load(data_dir: str | PathLike[str] | None = None, seed: int = 0) -> DataBundle:
    """Load IMDb as the paper describes it, from embeddings that were computed before.

    All 25,000 training reviews are used; a tenth of them, after a shuffle whose seed is fixed,
    validates. All 25,000 test reviews test. Out of domain are all texts there are of five groups:
    product reviews, product metadata, lorem ipsum, and the raw JSON of reviews and of metadata.

    # Paper: product texts of Amazon's Appliances, 2023, 100 of each group. Here: kitchen,
    # electronics, beauty, appliances and gift cards, 485 to 3,000 of a group, because those are to
    # be had; texts are cut at 128 tokens.

    Args:
        data_dir: where to look first for `imdb_mpnet.npz`.
        seed: without effect, since nothing is drawn at random.

    Returns:
        The data set; inputs are `(n, 768)` float32 of unit length, label 1 is positive.

    Raises:
        DataNotFound: if there is no `imdb_mpnet.npz`.
        BadInput: if the file found does not hold such arrays.
    """
    return load_features(SOURCE, data_dir)
