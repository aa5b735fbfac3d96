"""What a server counts, for `/metrics`."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence

from sbmc import __version__
from sbmc.report.answers import PARTS
from sbmc_serve.answering import Observed
from sbmc_serve.prometheus import Histogram, Metric, Sample
from sbmc_serve.served import Served

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Rows of each posterior that "lately" stands for.
WINDOW = 1000


class _Model:
    """What is counted of one posterior."""

    def __init__(self) -> None:
        self.rows = 0
        self.abstained = 0
        self.decided = 0
        self.sums = dict.fromkeys(PARTS, 0.0)
        self.lately: dict[str, deque[float]] = {part: deque(maxlen=WINDOW) for part in PARTS}
        self.abstained_lately: deque[bool] = deque(maxlen=WINDOW)


class Metrics:
    """Counts of requests, rows and answers. Threads may use it together.

    Args:
        models: the posteriors that are served, by name.
    """

    def __init__(self, models: Mapping[str, Served]) -> None:
        self._lock = threading.Lock()
        self._served = models
        self._models = {name: _Model() for name in models}
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._batch_rows, self._batch_requests = Histogram(SIZES), Histogram(SIZES)
        self._started = time.time()

    def count_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[method, path, status] += 1
            self._seconds[path].observe(seconds)

    def count_batch(self, rows: Sequence[int]) -> None:
        """Count a batch by the rows of its requests."""
        with self._lock:
            self._batch_rows.observe(sum(rows))
            self._batch_requests.observe(len(rows))

    def count_rows(self, observed: Observed) -> None:
        """Count rows that were answered."""
        with self._lock:
            model = self._models[observed.model]
            model.rows += len(observed.score)
            for part in PARTS:
                values = observed.parts[part].tolist()
                model.sums[part] += sum(values)
                model.lately[part].extend(values)
            if observed.abstain is not None:
                decisions = observed.abstain.tolist()
                model.decided += len(decisions)
                model.abstained += sum(decisions)
                model.abstained_lately.extend(decisions)

    def collect(self, waiting: int, queue: int) -> list[Metric]:
        """All metrics.

        Args:
            waiting: requests that wait for their turn.
            queue: how many may.

        Returns:
            The metrics, in the order in which they are written.
        """
        with self._lock:
            return [
                Metric("sbmc_info", "gauge", "The version of sbmc.", [_one(version=__version__)]),
                Metric(
                    "sbmc_start_time_seconds",
                    "gauge",
                    "When the server started, in seconds since 1970.",
                    [Sample(self._started)],
                ),
                *self._of_requests(),
                Metric(
                    "sbmc_queue_requests", "gauge", "Requests that wait now.", [Sample(waiting)]
                ),
                Metric("sbmc_queue_limit", "gauge", "Requests that may wait.", [Sample(queue)]),
                *self._of_models(),
            ]

    def _of_requests(self) -> list[Metric]:
        counts = [
            Sample(count, {"method": method, "path": path, "status": str(status)})
            for (method, path, status), count in sorted(self._requests.items())
        ]
        seconds = [
            sample
            for path, histogram in sorted(self._seconds.items())
            for sample in histogram.samples({"path": path})
        ]
        return [
            Metric("sbmc_requests_total", "counter", "Requests answered, by status.", counts),
            Metric(
                "sbmc_request_seconds",
                "histogram",
                "From the arrival of a request to the end of its answer.",
                seconds,
            ),
            Metric(
                "sbmc_batch_rows",
                "histogram",
                "Rows that were predicted together.",
                self._batch_rows.samples(),
            ),
            Metric(
                "sbmc_batch_requests",
                "histogram",
                "Requests that were answered by one prediction.",
                self._batch_requests.samples(),
            ),
        ]

    def _of_models(self) -> list[Metric]:
        models = sorted(self._models.items())
        healthy = [
            Sample(1 if served.posterior.health.ok else 0, {"model": name})
            for name, served in sorted(self._served.items())
        ]
        means = [
            Sample(sum(model.lately[part]) / len(model.lately[part]), {"model": n, "part": part})
            for n, model in models
            for part in PARTS
            if model.rows
        ]
        shares = [
            Sample(sum(model.abstained_lately) / len(model.abstained_lately), {"model": name})
            for name, model in models
            if model.decided
        ]
        return [
            Metric("sbmc_healthy", "gauge", "1 if the health of the posterior is ok.", healthy),
            Metric(
                "sbmc_rows_total",
                "counter",
                "Rows answered.",
                [Sample(model.rows, {"model": name}) for name, model in models],
            ),
            Metric(
                "sbmc_abstained_rows_total",
                "counter",
                "Rows from which the posterior abstained.",
                [Sample(m.abstained, {"model": name}) for name, m in models if m.decided],
            ),
            Metric(
                "sbmc_abstained_share",
                "gauge",
                f"Share of the last {WINDOW:,} rows from which the posterior abstained.",
                shares,
            ),
            Metric(
                "sbmc_uncertainty_sum",
                "counter",
                "Sum of the uncertainty of all rows; divide it by sbmc_rows_total for the mean.",
                [
                    Sample(model.sums[part], {"model": name, "part": part})
                    for name, model in models
                    for part in PARTS
                ],
            ),
            Metric(
                "sbmc_uncertainty_mean",
                "gauge",
                f"Mean uncertainty of the last {WINDOW:,} rows.",
                means,
            ),
        ]


def _one(**labels: str) -> Sample:
    return Sample(1, labels)
