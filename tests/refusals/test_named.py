"""Mistakes that people made, one by one: what was wrong is named, and so is what to do."""

import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline
from torch import nn

import sbmc
from sbmc.confidence import calibration_size
from sbmc.prediction import metrics

NOISE = torch.Generator().manual_seed(1)
X, Y = torch.randn(12, 2, generator=NOISE), torch.arange(12) % 2
SAMPLER = sbmc.HMC(steps=1, leapfrog=1, step_size=0.1, adapt=False, warmup=0.0)
HUGE = 10**30


def network(*more):
    return nn.Sequential(nn.Linear(2, 2), *more)


def fit(model=None, data=(X, Y), **options):
    options = {"s": 0.1, "sampler": SAMPLER, "particles": 2, "progress": False} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sbmc.HealthWarning)
        return sbmc.fit(network() if model is None else model, data, **options)


@pytest.fixture(scope="module")
def posterior():
    return fit()


class TakesDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, batch):
        return self.layer(batch["x"])


def refused(call, *parts):
    with pytest.raises(sbmc.BadInput) as error:
        call()
    for part in parts:
        assert part in str(error.value)
    assert "but got" in str(error.value)


@pytest.mark.parametrize("name", ["islands", "particles"])
@pytest.mark.parametrize("function", [sbmc.fit, sbmc.expect])
def test_more_than_anyone_counts_up_to_is_refused(function, name):
    words = f"`{name}` must be at most 1,000,000,000, but got 1e+30."
    refused(lambda: function(network(), (X, Y), **{name: HUGE}), words)


@pytest.mark.parametrize("name", ["members", "max_epochs"])
def test_training_without_end_is_refused(name):
    options = {"members": 2, "max_epochs": 1, "progress": False} | {name: HUGE}
    words = f"`{name}` must be at most 1,000,000,000"
    refused(lambda: sbmc.train_ensemble(network(), (X, Y), **options), words)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (lambda value: sbmc.HMC(steps=2, adapt=value), "adapt"),
        (lambda value: sbmc.SMC(pilot=value), "pilot"),
        (lambda value: sbmc.SMC(waste_free=value), "waste_free"),
        (lambda value: sbmc.Compute(throw=value), "throw"),
        (lambda value: sbmc.Custom(torch.sub, classification=value), "classification"),
    ],
)
@pytest.mark.parametrize("value", ["False", 0, 1, None, []])
def test_a_flag_is_true_or_false(settings, name, value):
    refused(lambda: settings(value), f"`{name}` must be True or False, but got {value!r}.")


def test_settings_that_were_taken_are_refused():
    refused(lambda: sbmc.Custom(None), "`function` must be a function of outputs and targets")
    refused(lambda: sbmc.SMC(eta=float("inf")), "`eta` must be positive and finite, but got inf")
    refused(lambda: sbmc.HMC(steps=2, draws=None), "`draws` must be a positive integer")


def test_masked_values_are_not_dropped():
    masked = np.ma.array(X.numpy(), mask=X.numpy() > 1)
    words = (
        f"without masked values: fill them in, or leave their rows out, but got {masked.mask.sum()}"
    )
    refused(lambda: fit(data=(masked, Y)), words)
    plain = np.ma.array(X.numpy())
    model = network()
    same = fit(model, (plain, Y)).positions, fit(model, (X.numpy(), Y)).positions
    assert torch.equal(*same)


def test_confidence_refuses_labels_that_the_model_does_not_have(posterior):
    words = "`data targets` must be class labels below the model's 2 outputs, but got label 6"
    refused(lambda: posterior.confidence((X, Y * 6)), words)


@pytest.mark.parametrize("function", ["fit", "predict", "train"])
def test_autocast_is_refused(function, posterior):
    calls = {
        "fit": fit,
        "predict": lambda: posterior.predict(X),
        "train": lambda: sbmc.train_map(network(), (X, Y), max_epochs=1, progress=False),
    }
    with torch.autocast("cpu"):
        refused(calls[function], "outside torch.autocast, which would change numbers in silence")


def test_inference_mode_is_named_and_harms_no_prediction(posterior):
    with torch.inference_mode():
        refused(fit, "`fit` must be called outside torch.inference_mode", "torch.no_grad")
        inside = posterior.predict(X).probs
    assert torch.equal(inside, posterior.predict(X).probs)


def test_a_device_that_is_not_there_is_named():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    remedy = "Leave it out to compute where the model is."
    refused(lambda: sbmc.Compute(device="cuda"), "`device` must be one that this machine", remedy)
    refused(lambda: sbmc.build_target(network(), (X, Y), device="cuda"), "`device`", remedy)


def test_rules_of_the_prior_are_tried():
    for alpha in (lambda s: None, lambda: 1, lambda s: "a"):
        refused(lambda alpha=alpha: fit(prior=sbmc.Prior(alpha=alpha)), "`alpha` must be a")
    refused(lambda: fit(prior_variance=1e308), "`prior_variance` must be at most 3.4")
    refused(lambda: calibration_size("x", 0.1), "`alpha` must be between 0 and 1")
    refused(
        lambda: sbmc.Compute(path=[]), "`path` must be one of auto, fused, vmap, loop, but got []"
    )


@pytest.mark.parametrize(
    ("model", "data", "parts"),
    [
        (network(), (torch.ones(12, 5), Y), ("takes 2 features", "shape (12, 5)", "Reshape them")),
        (network(), (torch.ones(12, 2).long(), Y), ("floating-point", "inputs.float()")),
        (nn.Embedding(3, 2), (torch.ones(12), Y), ("integers", "inputs.long()")),
        (network(), (X[0], Y), ("`data targets` must be as many as the inputs",)),
        (TakesDict(), ({"x": X}, Y), ("it takes (batch)", "wrap a network")),
        (nn.ModuleList([nn.Linear(2, 2)]), (X, Y), ("a module with a forward", "nn.Sequential")),
        (network(nn.Softmax(-1)), (X, Y), ("sum to one", 'likelihood="categorical"')),
    ],
)
def test_a_network_that_does_not_fit_its_data_is_told_why(model, data, parts):
    refused(lambda: fit(model, data), *parts)


def test_a_network_is_taken_out_of_its_wrapper():
    inner = network()
    assert torch.equal(fit(nn.DataParallel(inner)).positions, fit(inner).positions)


def test_a_single_example_is_enough():
    assert fit(data=(X[:1], Y[:1])).positions.shape == (1, 2, 6)


def test_a_single_example_without_an_axis_is_told_to_add_one(posterior):
    refused(lambda: posterior.predict(X[0]), "`inputs` must be tensors", "inputs[None]")
    refused(lambda: fit(data=(X[0], Y[0])), "`data targets` must be a tensor", "targets[None]")


def test_a_single_example_is_seen_whatever_its_width():
    """The network is tried on two rows; two numbers of four are no example."""
    wide = torch.arange(48.0).view(12, 4)
    one, model = (wide[0], Y[:4]), nn.Linear(4, 2)
    posterior = fit(model, (wide, Y))
    parts = ("shape (4,)", "a single example for the model", "inputs[None]")
    refused(lambda: posterior.predict(wide[0]), "`inputs`", *parts)
    refused(lambda: fit(model, one), "`data inputs`", *parts)
    refused(lambda: sbmc.train_map(model, one, max_epochs=1), "`train inputs`", *parts)


def test_a_network_in_the_place_of_the_data_is_called_a_network():
    """An nn.Sequential has a length and items, as a data set has."""
    refused(
        lambda: sbmc.fit((X, Y), network()), "`data` must be a pair", "module of type Sequential"
    )


def test_an_estimator_refuses_a_module_with_a_softmax():
    estimator = sbmc.SBMCClassifier(module=network(nn.Softmax(-1)))
    refused(lambda: estimator.fit(X.numpy(), Y.numpy()), "`module` must be", "Leave the softmax")


def test_a_regressor_lists_likelihoods_of_numbers_alone():
    with pytest.raises(sbmc.BadInput) as error:
        sbmc.SBMCRegressor(likelihood="poisson").fit(X.numpy(), X[:, 0].numpy())
    assert str(error.value) == (
        "`likelihood` must be 'gaussian', 'gaussian-network', 'student-t', sbmc.Gaussian(...) or "
        "sbmc.StudentT(...), but got 'poisson'."
    )


def test_warnings_of_an_estimator_point_at_the_users_line_and_name_the_budget():
    options = {"training_options": {"max_epochs": 2}, "random_state": 0}
    estimator = make_pipeline(sbmc.SBMCRegressor((3,), budget=0.05, **options))
    with pytest.warns(sbmc.HealthWarning, match="by a larger `budget` than") as caught:
        estimator.fit(X.numpy(), X[:, 0].numpy())
    assert caught[0].filename == __file__


def test_one_hot_rows_are_not_guessed_to_be_numbers():
    for targets in (torch.eye(2)[Y], torch.eye(2).long()[Y]):
        words = "`likelihood` must be given", "targets.argmax(1)", '"multi-label"', '"gaussian"'
        refused(lambda targets=targets: fit(data=(X, targets)), *words)


def test_outputs_that_sum_to_one_are_taken_if_the_user_insists():
    assert fit(network(nn.Softmax(-1)), likelihood="categorical").positions.shape == (1, 2, 6)
    assert fit(network(nn.LogSoftmax(-1))).positions.shape == (1, 2, 6)


def test_predict_names_what_does_not_fit(posterior):
    refused(lambda: posterior.predict(torch.ones(3, 5)), "`inputs`", "takes 2 features")
    refused(lambda: posterior.predict({"x": X}), "`inputs`", "a dict with 'x'")


@pytest.mark.parametrize("path", [None, 5, [], b"a", "", "a\0b", "z" * 3000])
def test_paths_are_texts_that_the_system_can_have(path, posterior):
    refused(lambda: posterior.save(path), "`path` must be the path of a file or folder")
    refused(lambda: sbmc.load(path, network()), "`path` must be the path of a file or folder")
    if path is not None:
        tune = {"v": 1.0, "s": 0.0, "folds": 2, "max_epochs": 1, "progress": False, "folder": path}
        refused(lambda: sbmc.tune(network(), (X, Y), **tune), "`folder` must be the path of a")


def test_posteriors_and_predictions_are_named(posterior):
    refused(lambda: sbmc.merge(5), "`posteriors` must be at least two posteriors, but got 5.")
    refused(lambda: metrics.nll(None, Y), "`probs` must be a tensor or an array, but got None.")
    refused(lambda: metrics.nll(posterior.predict(X), ["a"] * 12), "`labels` must be numeric")
    refused(lambda: posterior.predict(X).log_prob(Y + 5), "`targets` must be")


@pytest.mark.parametrize(
    ("targets", "remedy"),
    [
        (Y.bool(), "targets.long()"),
        (Y.float(), "targets.long()"),
        (torch.eye(2)[Y], "targets.argmax(1)"),
        (Y[:, None], "targets[:, 0]"),
        (Y[:, None].float(), "targets[:, 0].long()"),
        (Y + 1, "targets - 1"),
        (np.array(["cat", "dog"] * 6), "np.unique(labels, return_inverse=True)[1]"),
    ],
)
def test_labels_that_are_refused_come_with_a_remedy(targets, remedy):
    refused(lambda: fit(data=(X, targets), likelihood="categorical"), remedy)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(300, 300), "a Tensor of shape (300, 300)"),
        pytest.param(10**5000, "an integer of 5,001 digits", id="10**5000"),
        pytest.param("z" * 5000, "... (str)", id="long"),
        (object(), "a value of type object"),
    ],
)
def test_values_are_shown_in_one_short_line(value, words):
    with pytest.raises(sbmc.BadInput, match=re.escape(words)) as error:
        sbmc.HMC(steps=value)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)
