"""Options of `fit` that tests write in one dictionary, put into the groups that `fit` takes."""

from dataclasses import fields

import sbmc


def in_groups(options):
    """The options with those of `prior` and `compute` moved into their groups."""
    grouped = dict(options)
    for group, options_class in (("prior", sbmc.Prior), ("compute", sbmc.Compute)):
        names = [item.name for item in fields(options_class) if item.name in grouped]
        if names:
            assert group not in grouped  # its options are either all in the group, or all outside
            grouped[group] = options_class(**{name: grouped.pop(name) for name in names})
    return grouped
