"""Ctrl-C with words: what is done, and how to go on."""


class Interruption(Exception):
    """A run was interrupted, and its message says how to go on with it.

    Not a `KeyboardInterrupt`, of which the parser of the command line keeps no message.
    """
