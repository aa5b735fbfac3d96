"""From a posterior to one network: what it learns, what decides it, and what is refused."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc import BadInput
from sbmc.posterior.distillation import distil as module
from sbmc.posterior.distillation.perturbations import perturbed

SHORT = sbmc.HMC(steps=6, leapfrog=4, step_size=0.1)
INPUTS = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))
LABELS = (INPUTS[:, 0] + INPUTS[:, 1] > 0).long()
NUMBERS = 1000 + 50 * INPUTS[:, :1] + torch.randn(60, 1)


def make_net(inputs=3, outputs=2):
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


def fitted(targets=LABELS, outputs=2, net=None, inputs=INPUTS, **options):
    return sbmc.fit(
        net or make_net(outputs=outputs),
        (inputs, targets),
        **{"s": 0.5, "sampler": SHORT, "particles": 6, "progress": False, **options},
    )


@pytest.fixture(scope="module")
def classes():
    return fitted()


@pytest.fixture(scope="module")
def distilled(classes):
    return classes.distil(steps=600)


def test_it_answers_as_its_teacher_does(classes, distilled):
    """Rows that neither has seen; a student that was hardly trained is far worse."""
    rows = torch.randn(200, 3, generator=torch.Generator().manual_seed(7))
    teacher, student = classes.predict(rows), distilled.predict(rows)
    assert isinstance(student, sbmc.Prediction)
    assert (student.probs - teacher.probs).abs().mean() < 0.02
    torch.testing.assert_close(student.probs.sum(1), torch.ones(200, dtype=torch.float64))
    lost = distilled.fidelity
    assert lost.rows == 6
    assert lost.perturbed_correlation > 0.5
    assert lost.student_nll == pytest.approx(lost.teacher_nll, abs=0.05)
    hardly = classes.distil(steps=2)
    assert hardly.fidelity.divergence > 5 * lost.divergence


def test_the_epistemic_part_is_learned_off_the_data(classes, distilled):
    rows = perturbed(INPUTS, torch.Generator().manual_seed(8))
    teacher, student = classes.predict(rows), distilled.predict(rows)
    assert (student.epistemic.sqrt() - teacher.epistemic.sqrt()).abs().mean() < 0.05
    assert teacher.epistemic.sqrt().std() > 0.05  # so that a constant would not do


def test_the_seed_decides_everything_and_nothing_else_does(classes):
    before = torch.random.get_rng_state()
    first = classes.distil(steps=20, seed=3)
    torch.manual_seed(99)
    second = classes.distil(steps=20, seed=3)
    other = classes.distil(steps=20, seed=4)
    torch.random.set_rng_state(before)
    probs = [each.predict(INPUTS).probs for each in (first, second, other)]
    assert torch.equal(probs[0], probs[1])
    assert not torch.equal(probs[0], probs[2])


def test_rows_that_are_held_out_are_not_learned_from(classes, monkeypatch):
    seen = []
    monkeypatch.setattr(
        module, "train_student", lambda student, heads, lessons, *_: seen.append(lessons)
    )
    further = torch.full((4, 3), 9.0)
    distilled = classes.distil(inputs=further, held_out=0.25)
    (lessons,) = seen
    assert lessons.originals == 45 + 4
    assert len(lessons.inputs) == 49 + 80 * 49
    learned = {tuple(row) for row in lessons.inputs[:45].tolist()}
    assert len(learned & {tuple(row) for row in INPUTS.tolist()}) == 45
    assert torch.equal(lessons.inputs[45:49], further)
    assert distilled.fidelity.rows == 15
    # What is taught are the answers of the posterior for these very rows.
    teacher = classes.predict(lessons.inputs[:10])
    torch.testing.assert_close(lessons.answers[:10, :2], teacher.probs.float())


@pytest.mark.parametrize("perturbations", [0, 7, 130])
def test_as_many_perturbations_as_are_asked_for(classes, perturbations):
    distilled = classes.distil(steps=1, perturbations=perturbations)
    assert distilled.settings["perturbations"] == perturbations


def test_a_network_of_ones_own_is_copied_and_never_changed(classes):
    own = nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Dropout(0.1), nn.Linear(9, 3))
    before = [weight.clone() for weight in own.parameters()]
    distilled = classes.distil(own, steps=5)
    assert all(map(torch.equal, own.parameters(), before))
    assert distilled.architecture is None
    assert not distilled.network.training
    assert torch.equal(distilled.predict(INPUTS).probs, distilled.predict(INPUTS).probs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"network": make_net()}, r"3 outputs for each row \(2 logits .* shape \(2, 2\).*Linear"),
        ({"network": "mlp"}, "`network` must be a torch.nn.Module, or None, but got 'mlp'"),
        ({"held_out": 1.0}, "`held_out` must be a share"),
        ({"perturbations": -1}, "`perturbations` must be"),
        ({"steps": 0}, "`steps` must be a positive integer"),
        ({"learning_rate": 0}, "`learning_rate` must be positive"),
        ({"inputs": torch.zeros(4, 2)}, r"`inputs` must be rows of shape \[\(3,\)\]"),
        ({"data": INPUTS[:1]}, "`data` must be at least two rows"),
        ({"data": torch.full((3, 3), torch.nan)}, "NaN"),
    ],
)
def test_bad_arguments_are_refused_in_words(classes, arguments, words):
    with pytest.raises(BadInput, match=words):
        classes.distil(**arguments)


@pytest.mark.parametrize(
    ("likelihood", "targets", "outputs"),
    [
        ("poisson", torch.ones(60, 1).long(), 1),
        ("student-t", NUMBERS, 1),
        ("multi-label", torch.ones(60, 2).long(), 2),
    ],
)
def test_likelihoods_that_no_student_knows_are_refused(likelihood, targets, outputs):
    posterior = fitted(targets, outputs, likelihood=likelihood, s=0.0)
    with pytest.raises(BadInput, match=rf"likelihood '{likelihood}'; `posterior\.thin\(k\)`"):
        posterior.distil()


def test_a_posterior_from_a_file_asks_for_its_inputs(classes, tmp_path):
    classes.save(tmp_path / "file")
    loaded = sbmc.load(tmp_path / "file", make_net())
    with pytest.raises(BadInput, match=r"posterior\.distil\(data=x\)"):
        loaded.distil()
    for data in (INPUTS, INPUTS.numpy(), pd.DataFrame(INPUTS.numpy())):
        assert loaded.distil(data=data, steps=1).fidelity.student_nll is None
    for data in ((INPUTS, LABELS), DataLoader(TensorDataset(INPUTS, LABELS), batch_size=7)):
        assert loaded.distil(data=data, steps=1).fidelity.student_nll > 0


def test_training_data_stay_out_of_copies_and_files(classes):
    assert classes.training_data is not None
    assert classes.__getstate__()["training_data"] is None


def test_one_logit_of_two_classes():
    posterior = fitted(LABELS.float().unsqueeze(1), 1, likelihood="bernoulli")
    student = posterior.distil(steps=300).predict(INPUTS)
    assert student.probs.shape == (60, 2)
    assert (student.probs - posterior.predict(INPUTS).probs).abs().mean() < 0.05


@pytest.mark.parametrize(("noise", "outputs"), [("learned", 1), ("network", 2)])
def test_numbers(noise, outputs):
    """Targets far from zero: means and both variances are in their units."""
    posterior = fitted(NUMBERS / 50 - 20, outputs, likelihood=sbmc.Gaussian(noise=noise))
    distilled = posterior.distil(steps=800)
    teacher, student = posterior.predict(INPUTS), distilled.predict(INPUTS)
    assert isinstance(student, sbmc.RegressionPrediction)
    scale = teacher.total.sqrt()
    assert ((student.mean - teacher.mean) / scale).abs().mean() < 0.15
    for part in ("aleatoric", "epistemic", "total"):
        ratio = getattr(student, part) / getattr(teacher, part)
        assert ratio.log().abs().mean() < 0.3, part
    assert distilled.fidelity.agreement is None
    lower, upper = student.interval(0.9)
    assert ((upper - lower) / (teacher.interval(0.9).width)).log().abs().mean() < 0.15


@pytest.mark.filterwarnings("ignore::sbmc.HealthWarning")
def test_a_posterior_in_original_units():
    """An estimator's posterior takes rows of the table and gives targets in their units."""
    rows = 1e4 + INPUTS.double()
    model = sbmc.SBMCRegressor(hidden_layers=(4,), budget=1)
    model.fit(rows.numpy(), NUMBERS.double().numpy().ravel())
    posterior = model.posterior_
    teacher = posterior.predict(rows)
    student = posterior.distil(data=rows, steps=600).predict(rows)
    assert student.mean.dtype == torch.float64
    assert (student.mean - teacher.mean).abs().mean() < 0.03 * teacher.mean.std()


class TwoInputs(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layer = nn.Linear(3, outputs)

    def forward(self, first, second):
        return self.layer(torch.cat([first, second], 1))


def test_several_inputs_need_a_network_and_no_perturbations():
    inputs = INPUTS[:, :2].contiguous(), INPUTS[:, 2:].contiguous()
    posterior = fitted(net=TwoInputs(2), inputs=inputs)
    with pytest.raises(BadInput, match="`network` must be given, and `perturbations` left out"):
        posterior.distil()
    distilled = posterior.distil(TwoInputs(3), steps=300, learning_rate=0.05)
    assert distilled.settings["perturbations"] == 0
    assert distilled.fidelity.perturbed_correlation is None
    student = distilled.predict(inputs)
    assert (student.probs - posterior.predict(inputs).probs).abs().mean() < 0.1
    given = posterior.distil(TwoInputs(3), data=inputs, steps=1)
    assert given.settings["rows"] == 54


def test_rows_of_two_axes_are_brought_to_one_scale():
    """Numbers in thousands, which a student that takes them as they are would not learn from."""
    series = 5_000 * torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(3))
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 2))
    with torch.no_grad():
        net[1].weight.mul_(1e-3)
    posterior = fitted((series[:, 0, 0] > 0).long(), net=net, inputs=series, s=0.0)
    student = posterior.distil(steps=300).predict(series)
    assert (student.probs - posterior.predict(series).probs).abs().mean() < 0.02


def test_pictures():
    pictures = 255 * torch.rand(30, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    labels = (pictures.mean((1, 2, 3)) > 127).long()
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    with torch.no_grad():
        net[1].weight.mul_(1e-2)
    posterior = fitted(labels, net=net, inputs=pictures, s=0.1)
    distilled = posterior.distil(steps=300)
    assert distilled.architecture.is_picture
    student, teacher = distilled.predict(pictures), posterior.predict(pictures)
    assert (student.probs - teacher.probs).abs().mean() < 0.1
