import math

import pytest

from sbmc.checks import BadInput
from sbmc.samplers import MALA, SMC
from sbmc_studies.commands.options import parse_assignment
from sbmc_studies.experiments.experiment import experiment_names, get_experiment
from sbmc_studies.experiments.methods import METHODS, get_method
from sbmc_studies.experiments.samplers import build_sampler
from sbmc_studies.experiments.settings import (
    ALWAYS,
    check_setting,
    parse_real,
    resolve,
    settings_hash,
)


def resolved(method, preset="paper", experiment="mnist7", **overrides):
    return resolve(get_experiment(experiment), get_method(method), preset, overrides)


@pytest.mark.parametrize("experiment", experiment_names())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preset", ["paper", "best"])
def test_every_preset_resolves_with_the_common_settings(experiment, method, preset):
    settings = resolved(method, preset, experiment)
    assert set(ALWAYS) <= set(settings)
    assert settings["prior_variance"] > 0


def test_presets_of_mnist7_are_the_papers_and_ours():
    paper, best = resolved("s-hmc"), resolved("hmc", "best")
    assert (paper["s"], paper["leapfrog"], paper["steps"], paper["start"]) == (0.1, 1, 160, "prior")
    assert paper["trajectory"] is None
    assert paper["epochs"] is None
    assert (best["s"], best["epochs"], best["start"]) == (1.0, 200, "ensemble")
    assert best["trajectory"] == math.pi / 2
    assert resolved("s-hmc", "best")["epochs"] == 160
    assert paper["prior_variance"] == 0.1
    assert paper["particles"] == 10


def test_samplers_own_defaults_are_resolved():
    from sbmc import HMC

    settings = resolved("s-hmc")
    assert settings["warmup"] == HMC(steps=1).warmup
    assert settings["grow"] == HMC(steps=1).grow


def test_overrides_win_and_take_back_the_alternative():
    settings = resolved("s-hmc", epochs="20", trajectory="pi/4")
    assert settings["epochs"] == 20
    assert settings["steps"] is None
    assert settings["trajectory"] == math.pi / 4
    assert settings["leapfrog"] is None


@pytest.mark.parametrize(
    ("method", "overrides", "words"),
    [
        ("s-hmc", {"s": "1.5"}, ["`s`", "[0, 1]", "1.5"]),
        ("s-hmc", {"s": "nan"}, ["`s`", "nan"]),
        ("s-hmc", {"s": "half"}, ["`s`", "'half'"]),
        ("s-hmc", {"prior_variance": "0"}, ["`prior_variance`", "positive", "'0'"]),
        ("s-hmc", {"prior_variance": "inf"}, ["`prior_variance`", "inf"]),
        ("s-hmc", {"particles": "0"}, ["`particles`", "positive", "0"]),
        ("s-hmc", {"islands": "-1"}, ["`islands`", "-1"]),
        ("s-hmc", {"islands": "1.5"}, ["`islands`", "1.5"]),
        ("s-hmc", {"steps": "none"}, ["`steps`"]),
        ("s-hmc", {"steps": "10", "epochs": "20"}, ["`steps`", "`epochs`", "10", "20"]),
        ("s-hmc", {"leapfrog": 2, "trajectory": 1}, ["`leapfrog`", "`trajectory`"]),
        ("s-hmc", {"start": "anchr"}, ["`start`", "prior, anchor, ensemble", "anchr"]),
        ("s-hmc", {"warmup": "1"}, ["`warmup`", "[0, 1)"]),
        ("s-hmc", {"adapt": "maybe"}, ["`adapt`", "maybe"]),
        ("s-hmc", {"acceptance_band": "0.8,0.6"}, ["`acceptance_band`", "0.8"]),
        ("s-hmc", {"stpes": "10"}, ["`stpes`", "s-hmc", "Did you mean 'steps'?"]),
        ("hmc", {"s": "0.1"}, ["`s`", "1.0 for hmc", "0.1"]),
        ("map", {"islands": "8"}, ["`islands`", "1 for map", "8"]),
        ("map", {"steps": "8"}, ["`steps`", "map"]),
        ("de", {"leapfrog": "8"}, ["`leapfrog`", "de"]),
        ("de", {"network": "mlp"}, ["`network`"]),
        ("s-smc", {"steps": "8"}, ["`steps`", "s-smc"]),
        ("s-smc", {"start": "anchor"}, ["`start`", "prior for s-smc", "anchor"]),
        ("smc", {"s": "0.1"}, ["`s`", "1.0 for smc", "0.1"]),
        ("s-smc", {"mutations": "0"}, ["`mutations`", "at least 1", "0"]),
        ("s-smc", {"mutations": "3,4"}, ["`mutations`", "`temperatures`"]),
        ("s-smc", {"ess": "1"}, ["`ess`", "(0, 1)", "1"]),
        ("s-smc", {"eta": "0.1", "waste_free": "true"}, ["`eta`", "`waste_free`"]),
        ("s-smc", {"resampling": "sistematic"}, ["`resampling`", "Did you mean 'systematic'?"]),
        ("s-smc", {"move": "hcm"}, ["`move`", "hmc, mala, pcn", "Did you mean 'hmc'?"]),
        ("s-smc", {"move": "pcn"}, ["`leapfrog`", "left out with the move pcn"]),
        ("s-smc", {"temperatures": "0.5,0.9"}, ["`temperatures`", "the last of them 1"]),
        ("s-smc", {"island_weights": "evidnce"}, ["`island_weights`", "Did you mean 'evidence'?"]),
        ("s-hmc", {"island_weights": "evidence"}, ["`island_weights`", "s-hmc"]),
    ],
)
def test_bad_settings_are_refused_in_words(method, overrides, words):
    with pytest.raises(BadInput) as refusal:
        resolved(method, **overrides)
    for word in words:
        assert word in str(refusal.value)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(BadInput, match="Did you mean 'mnist7'"):
        get_experiment("mnist")
    with pytest.raises(BadInput, match="Did you mean 's-hmc'"):
        get_method("s-hcm")
    with pytest.raises(BadInput, match="Did you mean 'best'"):
        resolved("map", "bst")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("pi", math.pi),
        ("pi/2", math.pi / 2),
        ("2*pi", 2 * math.pi),
        ("3π/4", 3 * math.pi / 4),
    ],
)
def test_reals_may_be_written_with_pi(text, value):
    assert parse_real(text) == pytest.approx(value, rel=1e-15)


def test_values_of_equal_meaning_have_equal_types():
    assert check_setting("s", "1") == 1.0
    assert isinstance(check_setting("s", 1), float)
    assert isinstance(check_setting("particles", "10.0"), int)


def test_assignments():
    assert parse_assignment("step-size = 0.1") == ("step_size", "0.1")
    assert parse_assignment("key=a=b") == ("key", "a=b")
    for bad in ("steps", "=3"):
        with pytest.raises(BadInput, match="KEY=VALUE"):
            parse_assignment(bad)


def test_hash_depends_on_what_decides_the_result_and_on_nothing_else():
    settings = resolved("s-hmc")
    digest = settings_hash("mnist7", "s-hmc", settings)
    assert len(digest) == 12
    assert int(digest, 16) >= 0
    # order, unused settings and the way a number was written do not count
    assert settings_hash("mnist7", "s-hmc", dict(reversed(settings.items()))) == digest
    assert settings_hash("mnist7", "s-hmc", {**settings, "later": None}) == digest
    assert settings_hash("mnist7", "s-hmc", resolved("s-hmc", s="0.10")) == digest
    # experiment, method and every value do
    assert settings_hash("digits", "s-hmc", settings) != digest
    assert settings_hash("mnist7", "hmc", settings) != digest
    for name, value in settings.items():
        changed = {**settings, name: "other" if value is None else None}
        assert settings_hash("mnist7", "s-hmc", changed) != digest, name


def test_smc_is_built_from_its_settings():
    settings = resolved("s-smc", move="mala", leapfrog="none", pilot="true", step_size="0.2")
    assert build_sampler("smc", settings) == SMC(
        mutations=10, pilot=True, move=MALA(step_size=0.2), ess=0.5
    )
    settings = resolved("s-smc", temperatures="0.1,1", step_sizes="0.3,0.1", mutations="4,5")
    frozen = build_sampler("smc", settings)
    assert frozen.frozen
    assert [frozen.mutations_at(i) for i in range(2)] == [4, 5]
