"""How a posterior lives on: it sees drift, ranks what to label next, and takes more data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from sbmc.checks import BadInput, require, require_flag
from sbmc.posterior.input_batches import held_inputs
from sbmc.posterior.living.drift import Drift
from sbmc.posterior.living.ranking import Ranking, rank
from sbmc.posterior.living.reference import (
    LEVEL,
    Reference,
    current_reference,
    make_reference,
    uncertainties_of,
)

if TYPE_CHECKING:
    from typing import Self

    from sbmc.posterior.posterior import Posterior


class Living:
    """The methods of a posterior that is in use while data and inputs change."""

    @property
    def reference(self) -> Reference | None:
        """Quantiles of the training inputs and of what is predicted for them; see `drift`.

        It is made when it is first needed, from at most 1,000 rows, is saved with the posterior and
        comes back with it. None if neither the training data nor a reference are known.
        """
        return current_reference(cast("Posterior", self))

    def make_reference(
        self,
        x: Any,
        *,
        held_out: bool = True,
        names: Sequence[str] | None = None,
        progress: bool | None = False,
    ) -> Reference:
        """Make the reference for `drift` from other rows than those of training, and keep it.

        A network is surer of the rows that it was trained on than of others of the same kind. So a
        reference of rows that it has not seen finds smaller shifts of uncertainties.

        Args:
            x: inputs as for `predict`, but no `DataLoader`; at most 1,000 rows are used.
            held_out: whether these are rows that the network was not fitted to.
            names: of the columns of a table.
            progress: None for automatic, True for always.

        Returns:
            The reference, which is also stored as `posterior.reference` and saved by `save`.

        Raises:
            BadInput: inputs are empty or not finite.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> posterior.make_reference(torch.randn(100, 2)).rows
            100
        """
        require_flag("held_out", held_out)
        listed = isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names)
        require(names is None or listed, "names", "a list of names, or None", names)
        posterior = cast("Posterior", self)
        posterior._reference = make_reference(
            posterior, x, held_out=held_out, names=names, progress=progress
        )
        return posterior._reference

    def drift(self, x: Any, *, level: float = LEVEL, progress: bool | None = False) -> Drift:
        """Say whether new inputs are like those of training, and predictions as sure as there.

        Features of the inputs and uncertainties are compared with the quantiles of
        `posterior.reference`, by tests with known false-alarm rates.

        Args:
            x: inputs as for `predict`, but no `DataLoader`.
            level: the largest probability of a false alarm, in (0, 1).
            progress: None for automatic, True for always.

        Returns:
            A `Drift`: `drifted`, what has moved, and `explain()` in words.

        Raises:
            BadInput: the posterior has no reference, or inputs are not as those of the reference.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(200, 2)
            >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> posterior.drift(torch.randn(100, 2) + 2).drifted
            True
        """
        posterior = cast("Posterior", self)
        reference = current_reference(posterior)
        if reference is None:
            raise BadInput(
                "`posterior` must have a reference to see drift by, but got one that knows neither "
                "its training data nor a reference, such as one from a file of before. Make one: "
                "posterior.make_reference(x)."
            )
        inputs = held_inputs(posterior, x)
        features = reference.features(inputs)
        series = uncertainties_of(posterior, inputs, progress)
        watched = {
            name: series[name]
            for name in ("total", "epistemic", "score")
            if name in series and name in reference.uncertainties
        }
        return reference.compare(inputs=features, level=level, **watched)

    def rank(
        self,
        pool: Any,
        by: str = "epistemic",
        k: int | None = None,
        *,
        batch: bool = False,
        seed: int = 0,
        progress: bool | None = False,
    ) -> Ranking:
        """Say which inputs of a pool to label next.

        Args:
            pool: inputs as for `predict`; a `DataLoader` must not shuffle.
            by: the score of a row. `"epistemic"`: what more data would remove, for classes the
                mutual information of label and parameters (BALD), for numbers the variance between
                particles. `"bald"`: the information for numbers too, by variances, so that noisy
                rows count less. `"total"`: total entropy or variance. For classes also
                `"variation"`, one minus the largest probability, and `"margin"`, how near the two
                largest are. `"random"`: by chance, to compare with.
            k: how many rows; all if not given.
            batch: choose the k rows together, so that they are not all alike; see
                `sbmc.posterior.living.ranking`. Among the 5,000 rows of the largest scores.
            seed: of `"random"`.
            progress: None for automatic, True for always.

        Returns:
            A `Ranking`: `indices` into the pool, the most useful first, and `scores`. Rows of equal
            score stay in their order.

        Raises:
            BadInput: an unknown score, more rows than there are, or a batch without k.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> len(posterior.rank(torch.randn(100, 2), k=5, batch=True).indices)
            5
        """
        posterior = cast("Posterior", self)
        return rank(posterior, pool, by, k, batch=batch, seed=seed, progress=progress)

    def update(
        self,
        new_data: Any,
        *,
        data: Any = None,
        sampler: Any = None,
        seed: int | None = None,
        compute: Any = None,
        progress: bool | None = None,
    ) -> Self:
        """The posterior of the old data and new ones, from where the particles are.

        Chains begin where they ended, and take half of the steps or epochs of the fit on all data.
        SMC tempers in the likelihood of the new data, and its evidence is that of all data:
        log Z(all) = log Z(old) + log Z(new | old), for each island. The prior stays what it was,
        with the anchor, s and v of the fit.

        Args:
            new_data: what has come since, in the form of the training data.
            data: the data of the fit, and of updates before this one, in their order; needed for a
                posterior from a file.
            sampler: settings of the algorithm; by default those of the fit, with half of the steps
                or epochs for chains, and with temperatures and step sizes that adapt for SMC.
            seed: of the noise, which no other run shares; that of the fit if not given.
            compute: `sbmc.Compute(...)`: executor, checkpoint, memory limit, retries, path, chunk
                size and `throw`.
            progress: as for `sbmc.fit`.

        Returns:
            A posterior like any other, with the cost of the update alone; `settings["updates"]` has
            the rows of every update. A confidence has to be fitted anew.

        Raises:
            BadInput: an update would not be the posterior of all data: of a mixture of s="auto", an
                ensemble or a baseline, thinned particles, weighted rows; other data than those of
                the fit; new data of another form.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(60, 2)
            >>> y = (x[:, 0] > 0).long()
            >>> run = {"s": 0.1, "sampler": sbmc.HMC(steps=20), "progress": False}
            >>> posterior = sbmc.fit(torch.nn.Linear(2, 2), (x[:40], y[:40]), **run)
            >>> posterior.update((x[40:], y[40:]), progress=False).settings["updates"]
            [{'rows': 20, 'before': 40, 'seed': 0}]
        """
        from sbmc.fitting.updating import update

        updated = update(
            cast("Posterior", self),
            new_data,
            data=data,
            sampler=sampler,
            seed=seed,
            compute=compute,
            progress=progress,
        )
        return cast("Self", updated)
