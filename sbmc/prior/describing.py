"""`sbmc.describe_prior`: the original prior of a network as a table, a row for each parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from sbmc.likelihoods import as_likelihood
from sbmc.model.data import as_examples
from sbmc.model.parameters import Selection, select_parameters
from sbmc.model.wrappers import unwrapped
from sbmc.prior.by_layer import MOST_MEAN_SQUARE, ParameterPrior
from sbmc.prior.original import OriginalPrior, PriorVariance, resolve_prior
from sbmc.storage.html_tables import html_table

HEADINGS = ("parameter", "shape", "rule", "fan_in", "centre", "variance", "rms / sd")


@dataclass(frozen=True, repr=False)
class PriorDescription:
    """A prior by parameter; `print` and notebooks show it as a table.

    Args:
        prior: the prior.

    Attributes:
        parameters: a `ParameterPrior` for each sampled parameter, with `name`, `shape`, `rule`,
            `fan_in`, `centre`, `variance` and `trained_rms`.
        notes: what a reader should know besides, as sentences.
    """

    prior: OriginalPrior

    @property
    def parameters(self) -> tuple[ParameterPrior, ...]:
        """The rows of the table."""
        return self.prior.parameters

    @property
    def notes(self) -> list[str]:
        """Sentences about what was guessed, shared or read off the weights."""
        sentences = ["rms / sd: of the weights around the centre, in prior standard deviations."]
        widened = [each.name for each in self.parameters if each.widened]
        if widened:
            sentences.append(
                f"Widened to half the mean square of the weights, because that was more than "
                f"{MOST_MEAN_SQUARE:g} times the rule's variance: {', '.join(widened)}. This is "
                f"empirical Bayes, so no evidence is reported."
            )
        elif self.prior.empirical is not None:
            sentences.append(
                f"Empirical Bayes, so no evidence is reported: {self.prior.empirical}."
            )
        for each in self.parameters:
            if each.shared_with:
                sentences.append(
                    f"{each.name} is tied to {', '.join(each.shared_with)}, and has the rule of "
                    f"its narrowest use."
                )
        guessed = [each.name for each in self.parameters if each.guessed]
        if guessed:
            sentences.append(
                f"The type of the layer is not known, and the shape decided: "
                f"{', '.join(guessed)}. `sbmc.prior.layer_rules.layer_rules.register` teaches a "
                f"rule; a mapping gives a variance."
            )
        return sentences

    def __repr__(self) -> str:
        rows = [HEADINGS, *(_cells(each) for each in self.parameters)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        rows = [_cells(each) for each in self.parameters]
        return html_table(rows, caption="sbmc prior", headings=HEADINGS, notes=self.notes)


def describe_prior(
    model: nn.Module,
    prior_variance: PriorVariance = "auto",
    *,
    parameters: Selection = "all",
    data: Any = None,
    likelihood: Any = "categorical",
) -> PriorDescription:
    """The original prior that `fit` would use for this network, by parameter.

    Args:
        model: the network, with the weights that it was trained to.
        prior_variance: as for `fit`.
        parameters: which ones are sampled, as for `fit`.
        data: the training data; `"evidence"` needs them, and a `WeightDecay` without `examples`.
        likelihood: as for `fit`; only `"evidence"` uses it.

    Returns:
        The description; `print` shows a table.

    Raises:
        BadInput: what `fit` would refuse.

    Examples:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(10, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        >>> with torch.no_grad():
        ...     for parameter in net.parameters():
        ...         _ = parameter.fill_(0.5)
        ...     _ = net[3].weight.fill_(3.0)
        >>> describe_prior(net)
        parameter  shape  rule             fan_in  centre  variance  rms / sd
        0.weight   4×10   weight           10      0       0.5       0.71
        0.bias     4      bias                     0       1         0.50
        1.weight   4      norm gain                1       0.25      1.00
        1.bias     4      bias                     0       1         0.50
        3.weight   2×4    weight, widened  4       0       4.5       1.41
        3.bias     2      bias                     0       1         0.50
        note: rms / sd: of the weights around the centre, in prior standard deviations.
        note: Widened to half the mean square of the weights, because that was more than 2 times \
the rule's variance: 3.weight. This is empirical Bayes, so no evidence is reported.
    """
    model = unwrapped(model)
    space = select_parameters(model, parameters)
    weights = space.flatten(model)
    examples = None if data is None else as_examples(data)
    if examples is not None:
        examples = examples.to(dtype=weights.dtype, device=weights.device)
    prior = resolve_prior(
        prior_variance,
        model,
        space,
        dtype=weights.dtype,
        trained=weights.unsqueeze(0),
        examples=examples,
        likelihood=as_likelihood(likelihood),
    )
    return PriorDescription(prior)


def _cells(row: ParameterPrior) -> tuple[str, ...]:
    labels = [row.rule, *["widened"] * row.widened, *["tied"] * bool(row.shared_with)]
    return (
        row.name,
        "×".join(map(str, row.shape)) or "1",
        ", ".join(labels),
        "" if row.fan_in is None else str(row.fan_in),
        f"{row.centre:g}",
        f"{row.variance:.4g}",
        "" if row.trained_rms is None else f"{row.trained_rms:.2f}",
    )
