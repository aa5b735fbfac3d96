"""What a server counts, for `/metrics`."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sbmc import __version__
from sbmc.posterior.living.drift import Drift
from sbmc.report.answers import PARTS
from sbmc_serve.answering import Observed
from sbmc_serve.prometheus import Histogram, Metric, Sample
from sbmc_serve.served import Served
from sbmc_serve.watch import WINDOW, Watch

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class _Model:
    """What is counted of one posterior."""

    def __init__(self, served: Served) -> None:
        self.abstained = 0
        self.sums = dict.fromkeys(PARTS, 0.0)
        self.lately = Watch(served)


class Metrics:
    """Counts of requests, rows and answers. Threads may use it together.

    Args:
        models: the posteriors that are served, by name.
    """

    def __init__(self, models: Mapping[str, Served]) -> None:
        self._lock = threading.Lock()
        self._served = models
        self._models = {name: _Model(served) for name, served in models.items()}
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
            model.lately.add(observed)
            for part in PARTS:
                model.sums[part] += float(observed.parts[part].sum())
            if observed.abstain is not None:
                model.abstained += int(observed.abstain.sum())

    def drifts(self) -> dict[str, Drift | None]:
        """How the last rows of each posterior differ from those of training."""
        watches = {name: model.lately for name, model in self._models.items()}
        with self._lock:
            questions = {name: watch.question() for name, watch in watches.items()}
        # Comparing takes a while, in which requests are to be counted.
        return {name: watch.drift(questions[name]) for name, watch in watches.items()}

    def collect(self, waiting: int, queue: int) -> list[Metric]:
        """All metrics.

        Args:
            waiting: requests that wait for their turn.
            queue: how many may.

        Returns:
            The metrics, in the order in which they are written.
        """
        drifts = self.drifts()
        with self._lock:
            more = {name: model.lately.more_abstained for name, model in self._models.items()}
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
                *_of_drift(drifts, more),
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
            Sample(sum(values) / len(values), {"model": name, "part": part})
            for name, model in models
            for part, values in model.lately.parts.items()
            if values
        ]
        decided = [(name, model) for name, model in models if model.lately.abstained]
        return [
            Metric("sbmc_healthy", "gauge", "1 if the health of the posterior is ok.", healthy),
            Metric(
                "sbmc_rows_total",
                "counter",
                "Rows answered.",
                [Sample(model.lately.seen, {"model": name}) for name, model in models],
            ),
            Metric(
                "sbmc_abstained_rows_total",
                "counter",
                "Rows from which the posterior abstained.",
                [Sample(model.abstained, {"model": name}) for name, model in decided],
            ),
            Metric(
                "sbmc_abstained_share",
                "gauge",
                f"Share of the last {WINDOW:,} rows from which the posterior abstained.",
                [
                    Sample(sum(rows) / len(rows), {"model": name})
                    for name, model in decided
                    for rows in [model.lately.abstained]
                ],
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


def _of_drift(
    drifts: Mapping[str, Drift | None], more_abstained: Mapping[str, float | None]
) -> list[Metric]:
    distances, p_values, verdicts = [], [], []
    for model, drift in drifts.items():
        if drift is None:
            continue
        shifts = {each.name: each.distance for each in drift.uncertainties}
        shifts["inputs"] = max((abs(each.distance) for each in drift.inputs), default=0.0)
        if (more := more_abstained[model]) is not None:
            shifts["abstained"] = more
        distances += [Sample(value, {"model": model, "of": of}) for of, value in shifts.items()]
        for of, p_value, drifted in (
            ("inputs", drift.p_inputs, drift.inputs_drifted),
            ("uncertainties", drift.p_uncertainties, drift.uncertainties_drifted),
        ):
            labels = {"model": model, "of": of}
            p_values.append(Sample(p_value, labels))
            verdicts.append(Sample(int(drifted), labels))
    return [
        Metric(
            "sbmc_drift_distance",
            "gauge",
            f"Distance of the last {WINDOW:,} rows from the training data (Kolmogorov-Smirnov), "
            "positive if values are higher; of inputs the largest of all features.",
            distances,
        ),
        Metric(
            "sbmc_drift_p_value",
            "gauge",
            "Probability of such distances if nothing had moved.",
            p_values,
        ),
        Metric("sbmc_drifted", "gauge", "1 if they have moved by more than chance.", verdicts),
    ]


def _one(**labels: str) -> Sample:
    return Sample(1, labels)
