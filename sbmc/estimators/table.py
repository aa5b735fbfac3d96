"""From a table of text and numbers to a posterior that has all it needs in its file."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any

import numpy as np
from torch import nn

from sbmc.checks import Phrase, require, require_choice, require_flag
from sbmc.datasets.files import TableEncoding, TextTable
from sbmc.estimators.classifier import SBMCClassifier
from sbmc.estimators.defaults import ACTIVATION
from sbmc.estimators.regressor import OF_NUMBERS, SBMCRegressor
from sbmc.likelihoods.choice import as_likelihood
from sbmc.posterior.posterior import Posterior
from sbmc.posterior.recipe import Recipe, describe_layers
from sbmc.posterior.units import INPUT_SCALE, INPUT_SHIFT, Units
from sbmc.randomness import require_short_seed

TABLE = "table"
LIKELIHOODS = ("categorical", *OF_NUMBERS)
# Numbers: an answer is doubtful if its standard deviation is larger than that of all but this share
# of the training rows, of which at most so many are looked at.
DOUBTFUL_SHARE, MOST_ROWS = 0.01, 10_000


def fit_table(
    table: TextTable,
    *,
    target: str | None = None,
    likelihood: str | None = None,
    hidden_layers: Sequence[int] | None = None,
    validation_fraction: float | None = None,
    budget: Any = None,
    drop: Collection[str] = (),
    seed: int = 0,
    progress: bool = False,
) -> Posterior:
    """Train a network on a table and sample its posterior; `sbmc fit --data train.csv`.

    The table is encoded by `TableEncoding.learn`, and an `SBMCClassifier` or an `SBMCRegressor`
    does the rest. The posterior takes encoded rows, in the table's own units.

    Args:
        table: the training data.
        target: the name of the target's column; if not given, `label`, `target` or `y`.
        likelihood: `"categorical"` for classes; `"gaussian-network"`, `"gaussian"` or `"student-t"`
            for numbers. If not given, it follows from the target, as for `TableEncoding.learn`.
        hidden_layers: the width of each hidden layer; the estimator's default if not given.
        validation_fraction: the share of rows that are set aside; the estimator's default if not
            given.
        budget: what sampling may cost, as for `sbmc.fit`.
        drop: columns to leave out.
        seed: decides all noise.
        progress: whether to show it.

    Returns:
        The posterior, with a `recipe`: after `posterior.save(path)`, `sbmc.load(path)` needs no
        network, and `TableEncoding.from_dict(posterior.recipe.data)` reads new tables.

    Raises:
        BadInput: the table or an argument breaks its rule.

    Examples:
        >>> cells = [f"{x / 9:.2f}" for x in range(40)]
        >>> labels = ["high" if x > 20 else "low" for x in range(40)]
        >>> table = TextTable({"x": cells, "label": labels}, "train.csv")
        >>> posterior = fit_table(table, hidden_layers=(4,), budget=1)
        >>> posterior.recipe.data["classes"]
        ('high', 'low')
    """
    _check_arguments(table, target, drop)
    require_short_seed(seed)
    require_flag("progress", progress)
    if likelihood is not None:
        require_choice("likelihood", likelihood, LIKELIHOODS)
    kind = None if likelihood is None else as_likelihood(likelihood).classification
    encoding = TableEncoding.learn(table, target=target, classes=kind, drop=drop)
    inputs, targets = encoding.inputs(table), encoding.targets(table)
    rule = "a table of at least two rows"
    require(len(inputs) > 1, "data", rule, Phrase(f"{table.source}, with {len(inputs)}"))
    options: dict[str, Any] = {
        "budget": budget,
        "random_state": int(seed),
        "verbose": int(progress),
    }
    if hidden_layers is not None:
        options["hidden_layers"] = hidden_layers
    if validation_fraction is not None:
        options["validation_fraction"] = validation_fraction
    if encoding.classes is not None:
        rule = "'categorical' for classes"
        require(likelihood in (None, "categorical"), "likelihood", rule, likelihood)
        model: Any = SBMCClassifier(**options)
    else:
        if likelihood is not None:
            options["likelihood"] = likelihood
        model = SBMCRegressor(**options)
    posterior: Posterior = model.fit(inputs, targets).posterior_
    network = dict(posterior.model.named_buffers())
    layers = [each for each in posterior.model.modules() if isinstance(each, nn.Linear)]
    described = describe_layers(
        tuple(int(width) for width in model.hidden_layers),
        Units(network[INPUT_SHIFT], network[INPUT_SCALE]),
        layers[-1].out_features,
        ACTIVATION.__name__,
    )
    data: dict[str, Any] = {"kind": TABLE, **encoding.as_dict(), "rows": len(inputs)}
    if encoding.classes is None:
        data["abstain_above"] = doubtful_deviation(posterior, inputs)
    posterior.recipe = Recipe(described, data)
    posterior.make_reference(inputs, held_out=False, names=encoding.input_names)
    return posterior


def doubtful_deviation(posterior: Posterior, inputs: Any) -> float:
    """The standard deviation that hardly any training row has, above which an answer is doubtful.

    Args:
        posterior: that predicts numbers.
        inputs: of the training data; at most 10,000 rows of them, evenly spaced, are looked at.

    Returns:
        The 99 % quantile of the predictive standard deviation; the largest one of several outputs.
    """
    chosen = np.linspace(0, len(inputs) - 1, min(len(inputs), MOST_ROWS)).round().astype(int)
    rows = inputs[chosen] if isinstance(inputs, np.ndarray) else inputs[chosen.tolist()]
    deviation = posterior.predict(rows).variance.sqrt().reshape(len(rows), -1).amax(1)
    return float(np.quantile(deviation.numpy(), 1 - DOUBTFUL_SHARE))


def _check_arguments(table: Any, target: Any, drop: Any) -> None:
    rule = "a TextTable, as `sbmc.datasets.files.read_table` makes it"
    require(isinstance(table, TextTable), "table", rule, table)
    rule = "the name of a column"
    require(target is None or isinstance(target, str), "target", rule, target)
    several = isinstance(drop, (Sequence, Set)) and not isinstance(drop, (str, bytes))
    named = several and all(isinstance(each, str) for each in drop)
    require(named, "drop", "a list of names of columns", drop)
