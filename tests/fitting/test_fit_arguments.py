"""The arguments of `fit`: stated once, few, in two groups; old and mistyped names are refused."""

import inspect
import pickle
import re
from dataclasses import fields

import pytest
import torch
from torch import nn

import sbmc
from sbmc.fitting.forecast import check
from sbmc.fitting.request import FitRequest

NOISE = torch.Generator().manual_seed(1)
DATA = torch.randn(12, 2, generator=NOISE), torch.randint(2, (12,), generator=NOISE)
MOST_KEYWORDS = 16


def keywords(function):
    return [p for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY]


def test_fit_has_few_keywords():
    assert len(keywords(sbmc.fit)) <= MOST_KEYWORDS
    assert "**" not in str(inspect.signature(sbmc.fit))


def test_the_signature_is_that_of_the_request():
    wanted = inspect.signature(FitRequest).parameters
    for function in (sbmc.fit, sbmc.expect, check):
        assert inspect.signature(function).parameters == wanted
    assert "prior: 'Prior' = Prior(), compute: 'Compute' = Compute()" in str(
        inspect.signature(sbmc.fit)
    )


@pytest.mark.parametrize("described", [sbmc.fit, sbmc.Prior, sbmc.Compute])
def test_every_argument_is_explained(described):
    explained = re.findall(r"^    (\w+): ", inspect.getdoc(described), re.MULTILINE)
    assert set(inspect.signature(described).parameters) <= set(explained)


def test_no_option_is_in_two_groups():
    groups = [{item.name for item in fields(c)} for c in (FitRequest, sbmc.Prior, sbmc.Compute)]
    assert sum(map(len, groups)) == len(set.union(*groups))


@pytest.mark.parametrize("function", [sbmc.fit, sbmc.expect])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"executor": "ray"},
            "`executor` is an option of `compute`: {}(..., compute=sbmc.Compute(executor='ray')).",
        ),
        (
            {"split": 0.2},
            "`split` is an option of `prior`: {}(..., prior=sbmc.Prior(split=0.2)).",
        ),
        (
            {"retries": 0, "covariance": "laplace", "throw": True},
            "`covariance` is an option of `prior` and `retries`, `throw` are options of `compute`: "
            "{}(..., prior=sbmc.Prior(covariance='laplace'), "
            "compute=sbmc.Compute(retries=0, throw=True)).",
        ),
        ({"alpha": lambda s: s}, "{}(..., prior=sbmc.Prior(alpha=...))."),
        ({"particle": 3}, "{}() has no argument `particle`. Did you mean 'particles'?"),
        ({"zzz": 3, "executor": "ray"}, "{}() has no argument `zzz`."),
    ],
)
def test_other_names_get_an_error_that_says_where_to_go(function, options, words):
    with pytest.raises(TypeError) as error:
        function(nn.Linear(2, 2), DATA, **options)
    assert str(error.value).endswith(words.format(function.__name__))


def test_a_missing_argument_is_named():
    with pytest.raises(TypeError, match="missing a required argument: 'data'"):
        sbmc.fit(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compute": "ray"}, "`compute` must be sbmc.Compute(...), but got 'ray'."),
        ({"compute": {"retries": 3}}, "`compute` must be sbmc.Compute(...), but got {'retries"),
        ({"prior": None}, "`prior` must be sbmc.Prior(...), but got None."),
        ({"prior": sbmc.Compute()}, "`prior` must be sbmc.Prior(...), but got Compute()."),
    ],
)
def test_something_else_than_a_group_is_refused(options, words):
    with pytest.raises(sbmc.BadInput, match=re.escape(words)):
        sbmc.fit(nn.Linear(2, 2), DATA, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "rai"}, "Did you mean 'ray'?"),
        ({"executor": 3}, "`executor` must be a name, settings such as"),
        ({"checkpoint": 3}, "`checkpoint` must be a folder's path"),
        ({"memory_limit": "2 apples"}, "`memory_limit` must be bytes"),
        ({"device": "gpu"}, "`device` must be a device that torch knows, but got 'gpu'."),
        ({"device": 0.5}, "`device` must be a device that torch knows, but got 0.5."),
        ({"dtype": torch.int64}, "`dtype` must be a floating-point torch.dtype"),
        ({"retries": -1}, "`retries` must be a non-negative integer, but got -1."),
        ({"first_island": 0.5}, "`first_island` must be a non-negative integer, but got 0.5."),
        ({"chunk_size": 0}, "`chunk_size` must be a positive integer or None, but got 0."),
        ({"path": "fusd"}, "Did you mean 'fused'?"),
        ({"path": 3}, "`path` must be"),
        ({"island_weights": "equals"}, "Did you mean 'equal'?"),
        ({"anchor_epochs": float("inf")}, "`anchor_epochs` must be a non-negative number"),
        ({"throw": "yes"}, "`throw` must be True or False, but got 'yes'."),
    ],
)
def test_nonsense_is_refused_when_compute_is_made(options, words):
    with pytest.raises(sbmc.BadInput, match=re.escape(words)):
        sbmc.Compute(**options)


def test_nonsense_is_refused_when_prior_is_made():
    with pytest.raises(sbmc.BadInput, match=re.escape("`alpha` must be a rule, a function of s")):
        sbmc.Prior(alpha=0.5)
    with pytest.raises(sbmc.BadInput, match="`covariance` must be left out with `split`"):
        sbmc.Prior(split=0.1, covariance="laplace")


def test_groups_show_what_was_changed_and_nothing_else():
    assert repr(sbmc.Prior()) == "Prior()"
    assert repr(sbmc.Prior(posterior_temperature=1)) == "Prior(posterior_temperature=1)"
    assert repr(sbmc.Compute(dtype=torch.float64, throw=True)) == (
        "Compute(dtype=torch.float64, throw=True)"
    )


def test_warnings_point_at_the_line_that_called_fit():
    sampler = sbmc.HMC(steps=1, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
    with pytest.warns(sbmc.HealthWarning) as caught:
        sbmc.fit(nn.Linear(2, 2), DATA, sampler=sampler, particles=2, progress=False)
    assert caught[0].filename == __file__


def test_warnings_of_islands_point_there_too():
    def fails(outputs, targets):
        # Some islands fail, whose first draws are on the wrong side.
        return torch.where(outputs[:, 0].mean() > 0, torch.nan, 0.0) + outputs.sum(-1) * 0

    sampler = sbmc.HMC(steps=1, leapfrog=1, step_size=1e-9, adapt=False, warmup=0.0)
    options = {"s": 1.0, "start": "prior", "likelihood": fails, "sampler": sampler}
    with pytest.warns(RuntimeWarning, match="islands failed") as caught:
        sbmc.fit(nn.Linear(2, 2), DATA, particles=1, islands=8, progress=False, **options)
    failed = [each for each in caught if "islands failed" in str(each.message)]
    assert failed[0].filename == __file__


def test_fit_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(sbmc.fit)) is sbmc.fit
