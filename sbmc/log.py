"""The package's logger, silent unless the application or `SBMC_LOG` enables it; and warnings.

`SBMC_LOG=debug` (or `info`, `warning`) shows on standard error what was chosen and why, with no
change to the program. Applications that configure `logging` themselves need nothing from here.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}

# Packages whose lines a warning does not point at.
_PASSED_OVER = ("sbmc", "sklearn", "joblib")

logger = logging.getLogger("sbmc")
# Without this, Python's handler of last resort would print the warnings.
logger.addHandler(logging.NullHandler())


def attach_stderr(level: str) -> logging.Handler:
    """Show the package's messages on standard error, from `level` upwards.

    Args:
        level: "debug", "info" or "warning", in upper or lower case. Anything else counts as
            "warning" and is itself the first message: a typing slip in an environment variable
            must not stop a program from being imported.

    Returns:
        The handler, for `logger.removeHandler`.
    """
    key = level.strip().lower()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("sbmc %(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(_LEVELS.get(key, logging.WARNING))
    if key not in _LEVELS:
        logger.warning("`SBMC_LOG` must be one of %s, but got %r.", ", ".join(_LEVELS), level)
    return handler


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line of the program that called this package.

    Args:
        message: what is wrong, and what to do.
        category: the class of the warning.
    """
    frame, level = sys._getframe(1), 2
    # Estimators are called by pipelines and searches of scikit-learn, which are not to blame.
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


if os.environ.get("SBMC_LOG", "").strip():
    attach_stderr(os.environ["SBMC_LOG"])
