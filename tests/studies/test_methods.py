import dataclasses
import importlib
import pkgutil

import pytest
from study_specs import make_spec

from sbmc.checks import BadInput
from sbmc.samplers.contract import Sampler
from sbmc_studies.experiments import samplers as study_samplers
from sbmc_studies.experiments.context import Context
from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import METHODS, Method, get_method, get_methods
from sbmc_studies.experiments.resources import Resources
from sbmc_studies.experiments.samplers import sampler_classes
from sbmc_studies.experiments.settings import resolve
from sbmc_studies.runs.runner import run

# The rows of the paper's Table 1, and what the design promises besides.
PROMISED = (
    *("map", "de", "swa", "swag", "mc-dropout", "laplace", "rms", "cold"),
    *("hmc", "s-hmc", "nuts", "mala", "pcn", "smc", "s-smc", "sgld", "s-sgld"),
    *("sghmc", "s-sghmc", "ubu", "s-ubu", "de-s-hmc", "de-s-smc"),
)

# As little work as every method can do.
TINY = {
    "max_epochs": 2,
    "batch_size": 256,
    "sampler_batch_size": 256,
    "particles": 2,
    "epochs": 4,
    "steps": 2,
    "mutations": 1,
    "warmup_draws": 3,
    "draws": 1,
    "thinning": 1,
    "max_depth": 2,
    "warmup_epochs": 1,
    "swa_epochs": 3,
    "rank": 2,
    "scout": "none",
    "scout_step_size": "none",
}


def tiny(method, experiment):
    """The overrides of `TINY` that a method has; of `steps` and `epochs`, only one."""
    plain = resolve(experiment, method, "paper")
    names = method.setting_names(plain) - set(method.fixed)
    chosen = {name: value for name, value in TINY.items() if name in names}
    if {"steps", "epochs"} <= set(chosen):
        del chosen["steps"]
    return chosen


def test_every_promised_method_is_there():
    assert set(PROMISED) <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_is_and_what_it_costs(name):
    method = METHODS[name]
    assert method.name == name
    for text in (method.label, method.description, method.cost):
        assert text
        assert "\n" not in text
        assert len(text) < 110


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_and_writes_a_whole_record(name, tmp_path):
    spec = make_spec("digits", name, tiny(get_method(name), get_experiment("digits")))
    resources = Resources(progress=False)
    done = run(spec, tmp_path, resources, debug=True)
    record = done.record
    assert record.outcome == "completed"
    assert 0 <= record.metrics["accuracy"] <= 1
    assert record.metrics["entropy.epistemic.ood.all"] >= 0
    spent = record.cost["epochs"] + record.cost["forward_epochs"]
    assert spent > 0
    assert record.cost["total_epochs"] >= record.cost["epochs"]
    assert len(record.islands) == spec.islands
    assert done.path.exists()
    assert run(spec, tmp_path, resources).reused


def test_every_sampler_is_two_methods():
    for kind in sampler_classes():
        assert METHODS[kind].fixed["s"] == 1.0
        assert "s" not in METHODS[f"s-{kind}"].fixed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resting(Sampler):
    """Stays where it begins."""

    summary = "stays where it begins"
    cost = "nothing"
    epochs: int | None = None
    patience: float = 1.0


def test_a_sampler_in_a_file_of_its_own_is_found(monkeypatch):
    """What a new file in `sbmc/samplers` brings with it, without an edit anywhere else."""
    import types

    module = types.ModuleType("sbmc.samplers.resting")
    module.Resting = Resting
    found = [*pkgutil.walk_packages([]), types.SimpleNamespace(name=module.__name__)]
    monkeypatch.setattr(pkgutil, "walk_packages", lambda *a: found)
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    study_samplers.sampler_classes.cache_clear()
    try:
        assert study_samplers.sampler_classes() == {"resting": Resting}
        assert study_samplers.sampler_defaults("resting") == {"epochs": None, "patience": 1.0}
    finally:
        study_samplers.sampler_classes.cache_clear()


def test_a_method_without_settings_in_the_experiment_gets_usable_ones():
    experiment = get_experiment("digits")
    bare = dataclasses.replace(experiment, presets={})
    settings = resolve(bare, get_method("s-mala"))
    assert (settings["s"], settings["epochs"], settings["start"]) == (0.1, 160, "anchor")
    assert resolve(bare, get_method("cold"))["posterior_temperature"] == 0.1
    assert resolve(bare, get_method("hmc"))["posterior_temperature"] is None


def test_names_are_looked_up_once_each_and_misspelt_ones_refused():
    assert [method.name for method in get_methods(["map", "de", "map"])] == ["map", "de"]
    with pytest.raises(BadInput, match="Did you mean 'laplace'"):
        get_method("laplac")
    assert all(isinstance(method, Method) for method in METHODS.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"s": 0.1, "factor_variance": 0.2}, ["`s`", "`factor_variance`"]),
        ({"split": 0.2, "factor_variance": 0.2}, ["`factor_variance`", "`split`"]),
        ({"split": 1.5}, ["`split`", "(0, 1)", "1.5"]),
        ({"anchor": "swag"}, ["`anchor`", "map, swa, mc-dropout", "swag"]),
        ({"covariance": "kron"}, ["`covariance`", "linear, laplace", "kron"]),
        ({"posterior_temperature": 0}, ["`posterior_temperature`", "positive"]),
        ({"s": "none"}, ["`s`"]),
    ],
)
def test_options_of_the_prior_are_refused_in_our_words(given, words):
    with pytest.raises(BadInput) as refused:
        resolve(get_experiment("digits"), get_method("s-hmc"), "paper", given)
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize("name", ["de-s-hmc", "de-s-smc"])
def test_islands_with_anchors_of_their_own_have_no_other_anchor_to_choose(name):
    with pytest.raises(BadInput, match="`anchor` must be a setting of"):
        resolve(get_experiment("digits"), get_method(name), "paper", {"anchor": "swa"})


def test_naming_a_factor_takes_back_s():
    experiment, method = get_experiment("digits"), get_method("s-hmc")
    settings = resolve(experiment, method, "paper", {"factor_variance": "0.2"})
    assert settings["s"] is None
    assert settings["factor_variance"] == 0.2


def quick_baseline(context, method, original=Context.baseline):
    """The training of an anchor takes the epochs of its preset, which would be long here."""
    options = original(context, method)
    return {**options, "epochs": 3, "warmup_epochs": 1} if "epochs" in options else options


@pytest.mark.parametrize(
    "options",
    [
        {"anchor": "swa"},
        {"anchor": "mc-dropout"},
        {"factor_variance": 0.1},
        {"covariance": "laplace"},
        {"split": 0.2},
        {"posterior_temperature": 0.5},
    ],
    ids=lambda options: next(iter(options)) + "-" + str(next(iter(options.values()))),
)
def test_every_option_of_the_prior_runs_and_is_recorded(options, tmp_path, monkeypatch):
    small = tiny(get_method("s-hmc"), get_experiment("digits"))
    monkeypatch.setattr(Context, "baseline", quick_baseline)
    spec = make_spec("digits", "s-hmc", {**small, **options})
    done = run(spec, tmp_path, Resources(progress=False), debug=True)
    assert done.record.outcome == "completed"
    name, value = next(iter(options.items()))
    assert done.record.settings[name] == value
    plain = run(make_spec("digits", "s-hmc", small), tmp_path, Resources(progress=False))
    assert plain.record.hash != done.record.hash
    assert plain.record.metrics["nll"] != done.record.metrics["nll"]
