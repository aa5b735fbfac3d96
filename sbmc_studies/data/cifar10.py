"""CIFAR-10, the paper's image data set: pictures as ResNet-50 features, for a linear head."""

from __future__ import annotations

from os import PathLike

from torch import Tensor

from sbmc.datasets.bundle import DataBundle
from sbmc_studies.data.features import FeatureFile, load_features

DESCRIPTION = (
    "CIFAR-10 as ResNet-50 features; other photographs, corruptions, house numbers outside"
)

# Paper: v = 0.2 for the features of its ResNet-50. Here: the features of another one, divided by
# this, because a prior variance means nothing without the unit of the features. Linear heads at
# v = 0.2, with features divided by 32, 14, 10, 6.3, 3.2, have NLLs of 0.374, 0.317, 0.306, 0.304,
# 0.338 on the validation pictures (60 iterations of L-BFGS each, begun at the one before);
# undivided, trained by Adam until it stops early, 0.687.
UNIT = 6.0


def _decode(values: Tensor, scale: Tensor) -> Tensor:
    # Features after a ReLU are many small and few large: their roots are what bytes keep evenly.
    return values.div_(255).square_().mul_(scale).div_(UNIT)


SOURCE = FeatureFile(
    name="cifar10",
    file="cifar10_resnet50.npz",
    sha256="e0acbce00a8bba17afa1dce0b5446928a8957b80b178561b5a1749ba5ef83303",
    width=2048,
    classes=10,
    groups=("close", "corrupt", "far"),
    decode=_decode,
    about=(
        "It holds CIFAR-10 (50,000 pictures to train, 10,000 to test, official order) as the "
        "pooled features of a ResNet-50 trained on ImageNet, 2,048 numbers each, and three groups "
        "of other pictures, and cannot be fetched. `sbmc embed images` computes such features; as "
        "arrays x_train, y_train, x_test, y_test and ood_close, ood_corrupt, ood_far in one .npz "
        "file they are what is needed."
    ),
)
FILE = SOURCE.file


def load(data_dir: str | PathLike[str] | None = None, seed: int = 0) -> DataBundle:
    """Load CIFAR-10 as the paper describes it, from features that were computed before.

    All 50,000 training pictures are used; a tenth of them, after a shuffle whose seed is fixed,
    validates. All 10,000 test pictures test. Out of domain are all pictures there are of three
    groups: close (photographs of other things), corrupt (test pictures under 13 corruptions at five
    severities), far (house numbers).

    # Paper: close is CIFAR-100, far is SVHN, 15 corruptions, 100 pictures of each. Here: close is
    # Tiny ImageNet, and 2,600 to 3,000 of a group, because those are to be had; the features are of
    # another ResNet-50, on pictures enlarged to 128 × 128.

    Args:
        data_dir: where to look first for `cifar10_resnet50.npz`.
        seed: without effect, since nothing is drawn at random.

    Returns:
        The data set; inputs are `(n, 2048)` float32, none negative.

    Raises:
        DataNotFound: if there is no `cifar10_resnet50.npz`.
        BadInput: if the file found does not hold such arrays.
    """
    return load_features(SOURCE, data_dir)
