"""Names of the classes that data sets have as numbers."""

from __future__ import annotations

CLASS_NAMES = {
    "imdb": ("negative", "positive"),
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    ),
}


def class_name(data: str, label: str | int) -> str | None:
    """The name of a class.

    Args:
        data: the data set.
        label: the number of the class.

    Returns:
        Its name; None where a class has no name but its number.

    Examples:
        >>> class_name("imdb", 1), class_name("cifar10", "3"), class_name("digits", 3)
        ('positive', 'cat', None)
    """
    names = CLASS_NAMES.get(data, ())
    number = int(label) if str(label).isdecimal() else -1
    return names[number] if 0 <= number < len(names) else None
