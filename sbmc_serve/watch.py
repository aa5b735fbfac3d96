"""The last rows of a posterior, and how they differ from those of training."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from sbmc.posterior.living.drift import Drift
from sbmc.report.answers import PARTS
from sbmc_serve.answering import Observed
from sbmc_serve.served import Served

# Rows of each posterior that "lately" stands for.
WINDOW = 1000
# Uncertainties that are compared with those of training, as `posterior.drift` does.
WATCHED = ("total", "epistemic")
# With fewer rows than this nothing is said about drift.
FEWEST = 20


class Watch:
    """What is remembered of the last rows of one posterior.

    Args:
        served: the posterior.

    Attributes:
        parts: each part of uncertainty, of the last rows.
        abstained: whether the posterior abstained from them.
        seen: rows since the start.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self.seen = 0
        self.parts: dict[str, deque[float]] = {part: deque(maxlen=WINDOW) for part in PARTS}
        self.abstained: deque[bool] = deque(maxlen=WINDOW)
        self._scores: deque[float] = deque(maxlen=WINDOW)
        self._features: deque[np.ndarray] = deque(maxlen=WINDOW)
        self._last: tuple[int, Drift | None] = (0, None)

    def add(self, observed: Observed) -> None:
        """Remember rows."""
        self.seen += len(observed.score)
        for part in PARTS:
            self.parts[part].extend(observed.parts[part].tolist())
        if observed.abstain is not None:
            self.abstained.extend(observed.abstain.tolist())
        if self._served.reference is not None:
            self._scores.extend(observed.score.tolist())
            # Of a batch that is larger than the window, the last rows.
            self._features.extend(self._served.reference.features(observed.inputs[-WINDOW:]))

    def question(self) -> tuple[int, dict[str, Any]] | None:
        """What `reference.compare` is asked, copied, and the number of rows seen by then.

        None if there is too little to ask.
        """
        if self._served.reference is None or len(self._features) < FEWEST:
            return None
        values: dict[str, deque[Any]] = {part: self.parts[part] for part in WATCHED}
        # Scores of another kind than those of a confidence are not in the reference.
        if self._served.posterior.fitted_confidence is not None:
            values["score"] = self._scores
        known = self._served.reference.uncertainties
        found = {name: np.array(each) for name, each in values.items() if name in known}
        return self.seen, {**found, "inputs": np.array(self._features)}

    @property
    def more_abstained(self) -> float | None:
        """By how much more the posterior abstained lately than in training, as shares.

        None if the reference does not know: it knows the abstentions of a fitted confidence.
        """
        known = {} if self._served.reference is None else self._served.reference.uncertainties
        own = self._served.abstain_above is None
        if "abstained" not in known or len(self.abstained) < FEWEST or not own:
            return None
        return known["abstained"].compare(np.array(self.abstained, dtype=float))[0]

    def drift(self, question: tuple[int, dict[str, Any]] | None) -> Drift | None:
        """The drift of the last rows; it is computed again only if there are new ones.

        Args:
            question: of `question`, which was asked under a lock; comparing takes a while.
        """
        if question is None or self._served.reference is None:
            return None
        seen, values = question
        before, drift = self._last
        if seen != before:
            drift = self._served.reference.compare(**values)
            self._last = (seen, drift)
        return drift
