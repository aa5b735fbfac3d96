"""One process for each contender of the speed benchmark; see `protocol`.

Only `ours` imports sbmc. The others run in an environment of their own, where it is not installed.
"""
