"""How a posterior goes into production: fewer particles, one network, or a graph in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from sbmc.posterior.distillation.distil import distil
from sbmc.posterior.distillation.distilled import Distilled
from sbmc.posterior.distillation.training import Schedule
from sbmc.posterior.export.export import Exported, export_posterior
from sbmc.posterior.thinning import thin

if TYPE_CHECKING:
    from typing import Self

    from sbmc.posterior.posterior import Posterior


class Compressible:
    """The methods of a posterior that make it smaller, or something that other programs run."""

    def first(self, islands: int) -> Self:
        """The posterior of the first islands only, as a run with so many would have given it."""
        from sbmc.posterior.first_islands import first_islands

        return cast("Self", first_islands(cast("Posterior", self), islands))

    def thin(self, k: int, x: Any = None) -> Self:
        """Keep the k particles whose mixture predicts most like that of all of them.

        Their weights are fitted anew (`sbmc.posterior.thinning` has the rule), so that a particle
        may stand for several that predict alike. Copies are merged without loss.

        Args:
            k: how many particles, over all islands. Fewer are kept where they lose nothing.
            x: inputs at which predictions are to stay as they are. None takes the training inputs;
                a posterior that was loaded from a file does not know them.

        Returns:
            A posterior of one island. `settings["thinned"]` has the particles' former places and
            how far predictions move: the root mean square of the change of a row, of probabilities
            and entropy together, or of mean and variances in units of the total.

        Raises:
            BadInput: k is no positive integer, or the inputs are not known.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> posterior.thin(3).positions.shape
            torch.Size([1, 3, 6])
        """
        return cast("Self", thin(cast("Posterior", self), k, x))

    def distil(
        self,
        network: nn.Module | None = None,
        data: Any = None,
        *,
        inputs: Any = None,
        perturbations: int | None = None,
        held_out: float = 0.1,
        steps: int = Schedule.steps,
        learning_rate: float = Schedule.learning_rate,
        seed: int = 0,
        progress: bool | None = False,
    ) -> Distilled:
        """Train one network to predict what this posterior does, uncertainty included.

        It learns the mean and the epistemic part (of numbers also the noise) on the training
        inputs, on perturbations of them (`sbmc.posterior.distillation.perturbations`) and on what
        you give as `inputs`. No label is used.

        Args:
            network: a module with one output more than there are classes, or with three outputs
                for each number; a copy of it is trained. None builds one: two hidden layers of 96
                and 48 units for a table, and for a picture strided convolutions before them.
            data: the training inputs, or `(inputs, targets)`, where targets only serve to measure
                what was lost. None takes those that the posterior was fitted to; one that was
                loaded from a file does not have them.
            inputs: further inputs without labels, on which predictions matter.
            perturbations: how many perturbed rows; by rule if None: 80 for each row, 100,000 at
                most. 0 for none.
            held_out: the share of the data on which the loss of fidelity is measured.
            steps: of the training, each on 256 rows.
            learning_rate: of Adam, at its largest.
            seed: decides everything.
            progress: None for automatic, True for always.

        Returns:
            A `Distilled`: `predict`, `save`, and in `fidelity` what was lost.

        Raises:
            BadInput: targets are neither classes nor numbers with Gaussian noise, the network has
                another number of outputs, or the training inputs are not known.

        Examples:
            >>> import sbmc, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> distilled = posterior.distil(steps=50)
            >>> distilled.predict(x).epistemic.shape
            torch.Size([40])
        """
        return distil(
            cast("Posterior", self),
            network,
            data,
            inputs=inputs,
            perturbations=perturbations,
            held_out=held_out,
            schedule=Schedule(steps=steps, learning_rate=learning_rate),
            seed=seed,
            progress=progress,
        )

    def export(
        self,
        path: str | Path,
        *,
        inputs: Any = None,
        interval: float | None = 0.9,
        abstain: Any = None,
    ) -> Exported:
        """Write one graph from inputs to answers, which runs without sbmc, ONNX also without torch.

        Inputs go to `probabilities`, or to `mean`, `lower` and `upper` of numbers; to `total`,
        `aleatoric` and `epistemic`; and, with `abstain`, to the flag of that name. The number of
        rows is open. The file is tried on a few rows before it is kept: in ONNX Runtime, or in
        torch. What it is, units, health and threshold are in its metadata.

        Args:
            path: a file whose name ends in `.onnx` (needs the extra `pip install 'sbmc[onnx]'`) or
                `.pt2` (torch.export).
            inputs: a few rows; None makes some up from the shapes of the training inputs.
            interval: for numbers with Gaussian noise: the probability between `lower` and `upper`,
                which are quantiles of the mixture; None for none.
            abstain: `(quantity, threshold)`: abstain where the quantity is at least the threshold;
                of classes `"error"` (1 − the largest probability), of numbers `"deviation"` or
                `"width"`, of both `"total"`, `"aleatoric"` or `"epistemic"`. `"confidence"`: by
                the score of `posterior.confidence(...)`, which is an output `score` too. None
                takes that confidence if there is one, and otherwise there is no flag.

        Returns:
            What was written; its text says how far it is from `predict`.

        Raises:
            BadInput: another ending of the name, an unknown quantity, an interval of other than
                Gaussian noise, or a network that cannot be traced.
            ImportError: packages for ONNX are missing.

        Examples:
            >>> import sbmc, tempfile, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     exported = posterior.export(f"{folder}/a.pt2", abstain=("epistemic", 0.1))
            >>> exported.outputs
            ('probabilities', 'total', 'aleatoric', 'epistemic', 'abstain')
        """
        posterior = cast("Posterior", self)
        return export_posterior(posterior, path, inputs=inputs, interval=interval, abstain=abstain)
