"""A distilled network: the answers of a posterior in one forward pass, and what was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sbmc.checks import Phrase, require, require_count
from sbmc.model.calling import errors_in_words
from sbmc.model.data import Inputs, count, tree_map
from sbmc.model.dataset_inputs import arity_of, dataset_inputs, is_dataset
from sbmc.model.threads import threads_for
from sbmc.posterior.distillation.fidelity import Fidelity
from sbmc.posterior.distillation.heads import ClassHeads, Heads, Parts
from sbmc.posterior.distillation.saving import Contents, read_distilled, write_distilled
from sbmc.posterior.distillation.student import Architecture
from sbmc.posterior.distillation.training import call
from sbmc.posterior.export.export import Exported, export_distilled
from sbmc.posterior.input_batches import checked_batches
from sbmc.posterior.sharing import Shareable
from sbmc.prediction.distilled import (
    DistilledPrediction,
    DistilledRegressionPrediction,
    distilled_prediction,
)
from sbmc.prediction.prediction import concatenate
from sbmc.storage.html_tables import html_table
from sbmc.target.memory_needs import multiplications

# Rows that go through the network together: their activations stay in cache.
BATCH = 1_024


class DistilledNetwork(nn.Module):
    """A student and its heads as one module: from inputs to a prediction and its parts.

    Args:
        student: any module with the outputs that the heads take.
        heads: without parameters.
    """

    def __init__(self, student: nn.Module, heads: Heads) -> None:
        super().__init__()
        self.student, self.heads = student, heads

    def forward(self, *inputs: Tensor, **named: Tensor) -> Parts:
        """The mean (probabilities or numbers), and its total, aleatoric and epistemic part."""
        return self.heads(self.student(*inputs, **named))


class Distilled(Shareable):
    """One network that answers as a posterior does; made by `posterior.distil()`.

    Attributes:
        network: a plain module: `network(x)` gives the mean and the three parts of uncertainty.
        fidelity: what was lost, on rows that were held out of the distillation; None before it
            was measured.
        architecture: of a student that was built by sbmc; None for one that was given.
        settings: how it was made, as plain values.
        dtype: of inputs and weights.
    """

    def __init__(
        self,
        network: DistilledNetwork,
        fidelity: Fidelity | None,
        settings: dict[str, Any],
        architecture: Architecture | None = None,
    ) -> None:
        self.network = network
        self.fidelity = fidelity
        self.settings = settings
        self.architecture = architecture
        # Read once: going through the modules takes longer than a layer of a small network.
        first = next(network.parameters())
        self.dtype, self._device = first.dtype, first.device
        self._weights = sum(weight.numel() for weight in network.parameters())

    def __repr__(self) -> str:
        kind = "classes" if self._classes else "numbers"
        return f"Distilled({kind}, weights={self._weights:,}; {self.fidelity})"

    def _repr_html_(self) -> str:
        """HTML for a notebook: the network, its teacher, and what was lost."""
        rows = [
            ("teacher", f"{self.settings['particles']} networks"),
            ("student", str(self.architecture or type(self.network.student).__name__)),
            ("weights", f"{self._weights:,}"),
            *(self.fidelity.lines() if self.fidelity is not None else ()),
        ]
        return html_table(rows, caption="sbmc distilled network")

    @property
    def _classes(self) -> bool:
        return isinstance(self.network.heads, ClassHeads)

    def predict(
        self, inputs: Any, *, batch_size: int | None = None
    ) -> DistilledPrediction | DistilledRegressionPrediction:
        """The prediction for some inputs, as `posterior.predict` gives it, in one forward pass.

        Args:
            inputs: as for `Posterior.predict`.
            batch_size: rows that go through together; by rule if not given.

        Returns:
            A `Prediction` or a `RegressionPrediction`. The spread of probabilities is a Dirichlet
            distribution, and numbers are normal; see `sbmc.prediction.distilled`.

        Raises:
            BadInput: inputs are empty or not finite, or the size is no positive integer.
        """
        require_count("batch_size", batch_size, optional=True)
        arity = arity_of({"inputs": self.settings.get("inputs")})
        if is_dataset(inputs):
            inputs = dataset_inputs(inputs, arity)
        batches = checked_batches(inputs, self.dtype, arity, lambda _: batch_size or BATCH)[1]
        parts: list[Any] = []
        with torch.no_grad():
            for batch in batches:
                work = multiplications(batch, count(batch), self._weights)
                with threads_for(work, self._weights, apart=False):
                    parts.append(self._ask(tree_map(lambda t: t.to(self._device), batch)))
        require(bool(parts), "inputs", "non-empty", Phrase("no batches"))
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def _ask(self, batch: Inputs) -> DistilledPrediction | DistilledRegressionPrediction:
        with errors_in_words(self.network.student, batch, "inputs"):
            answer = self.network.heads(call(self.network.student, batch))
        return distilled_prediction(*answer, classes=self._classes)

    def save(self, path: str | Path) -> None:
        """Write one file (safetensors with JSON metadata); `Distilled.load` reads it.

        Args:
            path: the file, in an existing folder.

        Raises:
            BadInput: there is no such folder.
        """
        contents = Contents(
            self.network.student,
            self.network.heads,
            self.architecture,
            self.fidelity,
            self.settings,
        )
        write_distilled(path, contents)

    def export(
        self,
        path: str | Path,
        *,
        inputs: Any = None,
        interval: float | None = 0.9,
        abstain: Any = None,
    ) -> Exported:
        """Write a graph that other runtimes open, from inputs to answers; as `Posterior.export`.

        Args:
            path: a file whose name ends in `.onnx` or `.pt2`.
            inputs: a few rows; None makes some up from the shapes of the training inputs.
            interval: for numbers: the probability inside `lower` and `upper`; None for none.
            abstain: `(quantity, threshold)` for a flag; None for none.

        Returns:
            What was written; its text says how far it is from `predict`.

        Raises:
            BadInput: another ending of the name, an unknown quantity, or a network that cannot be
                traced.
            ImportError: packages for ONNX are missing: `pip install 'sbmc[onnx]'`.
        """
        return export_distilled(self, path, inputs=inputs, interval=interval, abstain=abstain)

    @classmethod
    def load(cls, path: str | Path, network: nn.Module | None = None) -> Distilled:
        """Read what `save` wrote; the file holds no code.

        Args:
            path: the file.
            network: the architecture of the student, if it was one of your own: its weights are
                taken from the file, and the module itself is not changed.

        Returns:
            The distilled network; it predicts the same bits on the same machine.

        Raises:
            BadInput: there is no such file, it is damaged or of another kind, or the network is
                missing, is not needed, or has other weights.
        """
        found = read_distilled(path, network)
        module = DistilledNetwork(found.student, found.heads).eval()
        return cls(module, found.fidelity, found.settings, found.architecture)
