"""When to stop training: the validation loss, smoothed, no longer falls."""

from __future__ import annotations

import math
from collections import deque

from sbmc.checks import require_count


class EarlyStopping:
    """Stop when the moving average of the validation loss has not improved for a while.

    The average is over the last `window` epochs and exists from epoch `window` on, so training
    never stops before epoch `window + patience`. It only decides when to stop; which weights to
    keep is decided by the loss itself. A loss that is not finite improves nothing.

    Args:
        window: epochs in the moving average.
        patience: epochs without a lower average before stopping.

    Raises:
        BadInput: one of them is no positive integer.

    Examples:
        >>> stopping = EarlyStopping(window=1, patience=2)
        >>> [stopping.update(loss) for loss in (3.0, 2.0, 2.5, 2.0)]
        [False, False, False, True]
    """

    def __init__(self, window: int = 10, patience: int = 5) -> None:
        require_count("window", window)
        require_count("patience", patience)
        self.patience = patience
        self._recent: deque[float] = deque(maxlen=int(window))
        self._lowest = math.inf
        self._waited = 0

    def update(self, loss: float) -> bool:
        """Take the validation loss of one more epoch.

        Args:
            loss: the loss on the validation data.

        Returns:
            Whether to stop now.
        """
        self._recent.append(loss)
        if len(self._recent) < (self._recent.maxlen or 0):
            return False
        # Summed afresh: a running sum would never recover from one NaN.
        average = sum(self._recent) / len(self._recent)
        if average < self._lowest:
            self._lowest, self._waited = average, 0
        else:
            self._waited += 1
        return self._waited >= self.patience
