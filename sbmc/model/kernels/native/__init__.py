"""The stem in C: optional, compiled when first used, and equal to what torch gives."""

from sbmc.model.kernels.native.planes import Planes, available, pooled_planes, usable

__all__ = ["Planes", "available", "pooled_planes", "usable"]
