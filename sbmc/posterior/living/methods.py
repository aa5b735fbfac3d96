"""How a posterior lives on: it sees drift, ranks what to label next, and takes more data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from sbmc.checks import BadInput, require_flag
from sbmc.posterior.input_batches import held_inputs
from sbmc.posterior.living.drift import Drift
from sbmc.posterior.living.reference import (
    LEVEL,
    Reference,
    current_reference,
    make_reference,
    uncertainties_of,
)

if TYPE_CHECKING:
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
