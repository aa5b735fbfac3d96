"""Small files of features, in the form of the real ones."""

import numpy as np


def arrays(source, train=200, test=120, group=60, seed=0):
    """Arrays of random bytes that a `FeatureFile` describes; labels go round."""
    rng = np.random.default_rng(seed)
    signed = source.name == "imdb"
    low, high, kind = (-127, 128, np.int8) if signed else (0, 256, np.uint8)

    def bytes_(count):
        return rng.integers(low, high, (count, source.width)).astype(kind)

    found = {
        "x_train": bytes_(train),
        "y_train": (np.arange(train) % source.classes).astype(np.uint8),
        "x_test": bytes_(test),
        "y_test": (np.arange(test) % source.classes).astype(np.uint8),
    }
    found |= {f"ood_{name}": bytes_(group + i) for i, name in enumerate(source.groups)}
    scale = np.linspace(0.001, 0.01, source.width).astype(np.float32)
    return {**found, "scale": scale}


def write(folder, source, **changes):
    """Write such a file; an array that is None is left out."""
    found = {**arrays(source), **changes}
    np.savez(folder / source.file, **{k: v for k, v in found.items() if v is not None})
    return found
