"""`s="auto"`: candidates, unseen rows, weights, and what the posterior says of them."""

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.fitting import further_networks, mixture_plan
from sbmc.fitting.calibration import calibrate
from sbmc.fitting.mixture_plan import (
    CANDIDATES,
    FURTHER_LENGTH,
    NETWORK,
    STEPS_TO_SHORTEN,
    further_training,
)
from sbmc.fitting.request import FitRequest
from sbmc.likelihoods import Categorical
from sbmc.model.data import Examples, as_examples
from sbmc.model.parameters import select_parameters
from sbmc.posterior.log_scores import log_scores
from sbmc.prediction.stacking import stack
from sbmc.training import SGD

QUICK = {"sampler": sbmc.AutoHMC(epochs=6), "particles": 4, "progress": False}


def rows(count, seed):
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, generator=rng)
    return inputs, (inputs[:, 0] + torch.randn(count, generator=rng) > 0).long()


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    return sbmc.train_map(net, rows(60, 0), max_epochs=40, progress=False)


@pytest.fixture(scope="module")
def mixed(network):
    return sbmc.fit(network, rows(60, 0), validation=rows(40, 1), **QUICK)


def singles_of(network):
    """The members of `mixed`, fitted one by one, by name."""
    examples, space = Examples(*rows(40, 1)), select_parameters(network, "all")
    scaled = calibrate([network], examples, space, Categorical())[0].model
    singles = {NETWORK: sbmc.fit(network, rows(60, 0), s=0.0, anchors=[scaled])}
    for each in CANDIDATES:
        place = {"start": [scaled]} if each.s == 1 else {"anchors": [scaled]}
        prior = sbmc.ByLayer(weights=each.weights)
        name = f"s = {each.s:g}, prior variance {each.weights:g} / fan-in"
        singles[name] = sbmc.fit(
            network, rows(60, 0), s=each.s, prior_variance=prior, **QUICK, **place
        )
    return singles


def test_weights_are_stacking_of_the_members_log_scores(network, mixed):
    examples = Examples(*rows(40, 1))
    singles = singles_of(network)
    assert [member.name for member in mixed.mixture.members] == list(singles)
    used = [name for name, each in singles.items() if each.health.ok is not False]
    if len(used) == 1:
        used = list(singles)
    scores = torch.stack([log_scores(singles[name], examples) for name in used], 1)
    weights = {member.name: member.weight for member in mixed.mixture.members}
    assert [weights[name] for name in used] == pytest.approx(stack(scores).tolist())
    for member in mixed.mixture.members:
        assert (member.weight == 0) == (member.name not in used) == bool(member.left_out)


def test_the_prediction_is_the_weighted_mean_of_the_members(network, mixed):
    inputs = rows(7, 2)[0]
    singles = singles_of(network)
    expected = sum(
        member.weight * singles[member.name].predict(inputs).probs
        for member in mixed.mixture.members
    )
    assert torch.allclose(mixed.predict(inputs).probs, expected.double(), atol=1e-6)


def test_further_networks_are_trained_within_the_budget_and_differ(network):
    budget = sbmc.Budget(trainings=5, trained_epochs=20)
    posterior = sbmc.fit(
        network, rows(60, 0), validation=rows(40, 1), budget=budget, progress=False
    )
    names = [member.name for member in posterior.mixture.members]
    assert names[:2] == [NETWORK, "3 networks, 2 of them trained here"]
    assert len(posterior.mixture.output_factors) == 3
    networks = posterior.positions[1:4, 0]
    assert torch.equal(posterior.positions[0, 0], networks[0])
    assert torch.pdist(networks).min() > 0.1
    assert posterior.cost.total_epochs - posterior.cost.anchor_epochs <= 100
    assert "2 further networks trained for 20 epochs" in posterior.settings["budget"]
    # The chains around the networks are dealt out to them: an island of two for each.
    assert posterior.settings["islands"] == 1 + 3 + 3 + 1


def test_further_networks_are_trained_as_the_first_was_where_that_is_known(network, monkeypatch):
    train_ensemble, seen = further_networks.train_ensemble, []

    def note(*arguments, **options):
        seen.append(options)
        return train_ensemble(*arguments, **options)

    monkeypatch.setattr(further_networks, "train_ensemble", note)
    budget = sbmc.Budget(trainings=5, trained_epochs=5)
    options = {"validation": rows(40, 1), "budget": budget, "progress": False}
    optimiser = SGD(0.03, momentum=0.9)
    known = sbmc.train_ensemble(
        network, rows(60, 0), members=1, max_epochs=5, optimiser=optimiser, batch_size=20,
        prior_variance=3.0, progress=False,
    )[0]  # fmt: skip
    sbmc.fit(known, rows(60, 0), **options)
    found = [seen[0].get(name) for name in ("optimiser", "batch_size", "prior_variance")]
    assert found == [optimiser, 20, 3.0]
    # A network of one's own remembers nothing.
    own = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    sbmc.fit(own, rows(60, 0), **options)
    assert seen[1]["learning_rate"] == further_networks.USUAL_RATE
    assert "optimiser" not in seen[1]


def test_further_networks_are_trained_for_a_part_of_a_long_training_and_all_of_a_short_one(network):
    def epochs(trained):
        request = FitRequest(network, as_examples(rows(60, 0)))
        return further_training(request, trained, budget=4 * trained).epochs

    # One step an epoch: 60 rows are less than a batch of 64.
    assert [epochs(steps) for steps in (30, STEPS_TO_SHORTEN - 1)] == [30, STEPS_TO_SHORTEN - 1]
    assert epochs(STEPS_TO_SHORTEN) == int(FURTHER_LENGTH * STEPS_TO_SHORTEN)


def test_networks_with_batch_norm_are_mixed_with_further_ones():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    model = sbmc.train_map(net, rows(60, 0), max_epochs=20, progress=False)
    posterior = sbmc.fit(model, rows(60, 0), validation=rows(40, 1), progress=False)
    assert len(posterior.mixture.output_factors) == 3
    # The first network's prediction is its own, with scaled outputs.
    inputs = rows(9, 5)[0]
    alone = posterior.outputs(posterior.positions[0][:1], inputs)[0]
    expected = posterior.mixture.output_factors[0] * model(inputs)
    assert torch.allclose(alone, expected, atol=1e-5)


def test_a_small_budget_and_a_given_start_leave_the_network_alone(network):
    options = {"validation": rows(40, 1), "progress": False}
    small = sbmc.Budget(trainings=1.5, trained_epochs=20)
    assert len(sbmc.fit(network, rows(60, 0), budget=small, **options).mixture.output_factors) == 1
    given = sbmc.Budget(trainings=5, trained_epochs=20)
    posterior = sbmc.fit(network, rows(60, 0), budget=given, start="anchor", **options)
    assert len(posterior.mixture.output_factors) == 1


def test_networks_that_cannot_be_trained_are_said_and_the_rest_goes_on(network, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the loss of every member stopped being finite")

    monkeypatch.setattr(further_networks, "train_ensemble", fail)
    budget = sbmc.Budget(trainings=5, trained_epochs=20)
    with pytest.warns(RuntimeWarning, match="No further networks .* stopped being finite"):
        posterior = sbmc.fit(
            network, rows(60, 0), validation=rows(40, 1), budget=budget, progress=False
        )
    assert len(posterior.mixture.output_factors) == 1
    # What was set aside for their training is not spent.
    assert posterior.cost.total_epochs - posterior.cost.anchor_epochs <= 100 - 2 * 20


def test_where_nothing_moved_all_members_stay_and_the_verdict_says_so(network):
    posterior = sbmc.fit(
        network,
        rows(60, 0),
        validation=rows(40, 1),
        sampler=sbmc.SGHMC(epochs=2, step_size=1e-9),
        particles=4,
        progress=False,
    )
    assert posterior.health.ok is False
    assert not any(member.left_out for member in posterior.mixture.members)


def test_a_mixture_is_saved_and_loaded_with_its_weights(network, mixed, tmp_path):
    mixed.save(tmp_path / "mixed.sbmc")
    loaded = sbmc.load(tmp_path / "mixed.sbmc", network)
    inputs = rows(5, 3)[0]
    assert torch.equal(loaded.predict(inputs).probs, mixed.predict(inputs).probs)
    assert loaded.mixture == mixed.mixture
    assert "stacking on 40 unseen rows" in str(loaded.mixture)


def test_a_model_from_train_map_remembers_its_validation_rows_and_a_copy_does_not():
    net = nn.Linear(3, 2)
    model = sbmc.train_map(net, rows(30, 4), rows(20, 5), max_epochs=2, progress=False)
    posterior = sbmc.fit(model, rows(30, 4), **QUICK)
    assert posterior.mixture.rows == 20
    assert "set aside" in posterior.mixture.source
    stranger = nn.Linear(3, 2)
    stranger.load_state_dict(model.state_dict())
    assert sbmc.fit(stranger, rows(30, 4), **QUICK).mixture is None


def test_remembered_rows_that_are_sampled_on_do_not_choose():
    train, validation = rows(30, 4), rows(20, 5)
    model = sbmc.train_map(nn.Linear(3, 2), train, validation, max_epochs=2, progress=False)
    both = tuple(torch.cat(pair) for pair in zip(train, validation, strict=True))
    assert sbmc.fit(model, both, **QUICK).mixture is None


def test_a_given_prior_variance_leaves_candidates_that_differ_in_s(network):
    posterior = sbmc.fit(network, rows(60, 0), prior_variance=0.5, validation=rows(40, 1), **QUICK)
    assert [member.s for member in posterior.mixture.members] == [0.0, *mixture_plan.SCALES]


def test_the_budget_is_shared_by_all_chains(network):
    budget = sbmc.Budget(trainings=6, trained_epochs=40)
    posterior = sbmc.fit(
        network, rows(60, 0), validation=rows(40, 1), budget=budget, particles=6, progress=False
    )
    spent = posterior.cost.total_epochs - posterior.cost.anchor_epochs
    assert spent <= 240
    assert posterior.settings["sampler_settings"]["epochs"] == (240 - 2 * 40) // 12
    assert "6 trainings of 40 epochs" in posterior.settings["budget"]


def test_checkpoints_of_candidates_are_folders_of_their_own(network, tmp_path):
    compute = sbmc.Compute(checkpoint=tmp_path / "run")
    options = {**QUICK, "validation": rows(40, 1), "compute": compute}
    first = sbmc.fit(network, rows(60, 0), **options)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["candidate-s0.1", "candidate-s1"]
    again = sbmc.fit(network, rows(60, 0), **options)
    assert torch.equal(first.positions, again.positions)


def test_islands_of_a_mixture_are_not_parts_of_one_run(mixed):
    with pytest.raises(BadInput, match="islands of a mixture"):
        mixed.first(1)
    with pytest.raises(BadInput):
        sbmc.merge([mixed, mixed])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation": rows(60, 0)}, "`validation` must be rows that are not in `data`"),
        ({"s": 0.1, "validation": rows(9, 1)}, "`validation` must be left out"),
        ({"s": "most"}, '`s` must be in [0, 1] or "auto"'),
        ({"budget": 3}, "`budget` must be left out where `sampler`"),
    ],
)
def test_refusals(network, options, message):
    with pytest.raises(BadInput) as refusal:
        sbmc.fit(network, rows(60, 0), **{**QUICK, **options})
    assert message in str(refusal.value)
