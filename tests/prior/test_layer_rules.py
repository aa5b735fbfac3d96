"""The rules by layer: centre and variance of every parameter of a zoo of modules, and the floor."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.language.lora import LoraHead
from sbmc.model.parameters import select_parameters
from sbmc.prior.by_layer import ByLayer
from sbmc.prior.layer_rules import Rule, layer_rules, rule_by_shape

C = ByLayer().weights
BIAS, GAIN, TABLE = (0.0, 1.0), (1.0, 0.25), (0.0, 1.0)


def weight(fan_in):
    return (0.0, C / fan_in)


def priors_of(model, trained=None, rules=None):
    space = select_parameters(model)
    return {each.name: each for each in (rules or ByLayer()).parameters(model, space, trained)}


class PeftLinear(nn.Module):
    """A linear layer with a LoRA of peft's structure, which is matched by its names."""

    def __init__(self, inputs, outputs, rank, scaling):
        super().__init__()
        self.base_layer = nn.Linear(inputs, outputs).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inputs, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, outputs, bias=False)})
        self.scaling = {"default": scaling}


class PeftEmbedding(nn.Module):
    """An embedding with a LoRA of peft's structure."""

    def __init__(self, rows, width, rank):
        super().__init__()
        self.base_layer = nn.Embedding(rows, width).requires_grad_(False)
        self.lora_embedding_A = nn.ParameterDict({"a": nn.Parameter(torch.zeros(rank, rows))})
        self.lora_embedding_B = nn.ParameterDict({"a": nn.Parameter(torch.zeros(width, rank))})
        self.scaling = {"a": 3.0}


class LoralibLinear(nn.Linear):
    """A linear layer whose adapter stands in it as parameters, as loralib has it."""

    def __init__(self):
        super().__init__(6, 4)
        self.lora_A, self.lora_B = nn.Parameter(torch.zeros(2, 6)), nn.Parameter(torch.zeros(4, 2))
        self.scaling = 0.5
        self.weight.requires_grad_(False)


class Conv1D(nn.Module):
    """The transposed linear layer of GPT-2 in transformers."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))


class OtherRMSNorm(nn.Module):
    """A norm of another library, whose weight begins at `value` (Gemma's at 0)."""

    def __init__(self, value):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), value))


class Tokens(nn.Module):
    """Parameters that stand in no layer that is known."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 6))
        self.mixing = nn.Parameter(torch.zeros(4, 6))
        self.scale = nn.Parameter(torch.zeros(6))


def encoder():
    return nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)


ZOO = {
    "linear": (nn.Linear(10, 3), {"weight": weight(10), "bias": BIAS}),
    "bilinear": (nn.Bilinear(2, 5, 3), {"weight": weight(10), "bias": BIAS}),
    "convolution in groups": (
        nn.Conv2d(8, 4, (3, 5), groups=2),
        {"weight": weight(4 * 15), "bias": BIAS},
    ),
    "depthwise convolution": (
        nn.Conv1d(6, 6, 7, groups=6, bias=False),
        {"weight": weight(7)},
    ),
    "transposed convolution": (
        # Of a kernel of 4 with a stride of 2, each output meets 2 × 2.
        nn.ConvTranspose2d(6, 4, 4, stride=2, groups=2),
        {"weight": weight(3 * 4), "bias": BIAS},
    ),
    "attention": (
        nn.MultiheadAttention(8, 2, add_bias_kv=True),
        {
            "in_proj_weight": weight(8),
            "in_proj_bias": BIAS,
            "bias_k": BIAS,
            "bias_v": BIAS,
            "out_proj.weight": weight(8),
            "out_proj.bias": BIAS,
        },
    ),
    "attention over other widths": (
        nn.MultiheadAttention(8, 2, kdim=5, vdim=6, bias=False),
        {
            "q_proj_weight": weight(8),
            "k_proj_weight": weight(5),
            "v_proj_weight": weight(6),
            "out_proj.weight": weight(8),
        },
    ),
    "transformer encoder": (
        encoder(),
        {
            "self_attn.in_proj_weight": weight(8),
            "self_attn.in_proj_bias": BIAS,
            "self_attn.out_proj.weight": weight(8),
            "self_attn.out_proj.bias": BIAS,
            "linear1.weight": weight(8),
            "linear1.bias": BIAS,
            "linear2.weight": weight(16),
            "linear2.bias": BIAS,
            "norm1.weight": GAIN,
            "norm1.bias": BIAS,
            "norm2.weight": GAIN,
            "norm2.bias": BIAS,
        },
    ),
    "LSTM": (
        nn.LSTM(3, 4, num_layers=2, bidirectional=True, bias=False),
        {
            f"weight_{kind}_l{layer}{direction}": weight(fan_in)
            for layer in (0, 1)
            for direction in ("", "_reverse")
            # The second layer sees both directions of the first.
            for kind, fan_in in (("ih", 8 if layer else 3), ("hh", 4))
        },
    ),
    "GRU": (
        nn.GRU(3, 4),
        {
            "weight_ih_l0": weight(3),
            "weight_hh_l0": weight(4),
            "bias_ih_l0": BIAS,
            "bias_hh_l0": BIAS,
        },
    ),
    "LSTM cell": (
        nn.LSTMCell(3, 4, bias=False),
        {"weight_ih": weight(3), "weight_hh": weight(4)},
    ),
    "embedding": (nn.Embedding(30, 4), {"weight": TABLE}),
    "bag of embeddings": (nn.EmbeddingBag(30, 4), {"weight": TABLE}),
    "BatchNorm": (nn.BatchNorm2d(3), {"weight": GAIN, "bias": BIAS}),
    "LayerNorm": (nn.LayerNorm((2, 3)), {"weight": GAIN, "bias": BIAS}),
    "GroupNorm": (nn.GroupNorm(2, 4), {"weight": GAIN, "bias": BIAS}),
    "InstanceNorm": (nn.InstanceNorm1d(4, affine=True), {"weight": GAIN, "bias": BIAS}),
    "RMSNorm": (nn.RMSNorm(4), {"weight": GAIN}),
    "another norm": (OtherRMSNorm(1.0), {"weight": GAIN}),
    "another norm, around 0": (OtherRMSNorm(0.0), {"weight": (0.0, 0.25)}),
    "transposed linear": (Conv1D(3, 10), {"weight": weight(10), "bias": BIAS}),
    "slope": (nn.PReLU(), {"weight": (0.25, 0.25)}),
    "LoRA of peft": (
        PeftLinear(10, 3, rank=2, scaling=4.0),
        {"lora_A.default.weight": (0.0, 0.1), "lora_B.default.weight": (0.0, C / (2 * 16))},
    ),
    "LoRA of an embedding": (
        PeftEmbedding(30, 4, rank=2),
        {"lora_embedding_A.a": (0.0, 1.0), "lora_embedding_B.a": (0.0, C / (2 * 9))},
    ),
    "LoRA of loralib": (
        LoralibLinear(),
        {"bias": BIAS, "lora_A": (0.0, 1 / 6), "lora_B": (0.0, C / (2 * 0.25))},
    ),
    "LoRA of this project": (
        LoraHead(torch.eye(6, 5), rank=2),
        {"down.weight": (0.0, 1 / 5), "up.weight": (0.0, C / 2)},
    ),
    "unknown": (Tokens(), {"token": BIAS, "mixing": weight(6), "scale": BIAS}),
}


@pytest.mark.parametrize("name", ZOO)
def test_the_rules_of_the_zoo(name):
    model, expected = ZOO[name]
    found = priors_of(model)
    assert {key: (each.centre, each.variance) for key, each in found.items()} == {
        key: (centre, pytest.approx(variance)) for key, (centre, variance) in expected.items()
    }
    assert [key for key, each in found.items() if each.guessed] == (
        list(expected) if name == "unknown" else []
    )


@pytest.mark.parametrize("name", ["LoRA of peft", "LoRA of loralib", "LoRA of this project"])
def test_the_product_of_the_factors_has_the_variance_of_a_weight(name):
    """Var[scaling Σ_r B_ir A_rj] = scaling² · rank · v_A · v_B, which is c / inputs."""
    model, _ = ZOO[name]
    first, second = (each for key, each in priors_of(model).items() if key != "bias")
    scaling = getattr(model, "scaling", 1.0)
    scaling = scaling["default"] if isinstance(scaling, dict) else scaling
    rank, inputs = first.shape
    product = scaling**2 * rank * first.variance * second.variance
    assert product == pytest.approx(C / inputs)


def test_a_deep_encoder_goes_by_type_and_not_by_name():
    found = priors_of(
        nn.Sequential(
            nn.Linear(4, 8), nn.TransformerEncoder(encoder(), 2, enable_nested_tensor=False)
        )
    )
    assert (found["0.weight"].fan_in, found["1.layers.1.linear2.weight"].fan_in) == (4, 16)
    assert found["1.layers.1.norm2.weight"].centre == 1.0
    misleading = nn.ModuleDict({"norm": nn.Linear(4, 4), "bias": nn.LayerNorm(4)})
    found = priors_of(misleading)
    assert (found["norm.weight"].centre, found["norm.weight"].variance) == weight(4)
    assert (found["bias.weight"].centre, found["bias.weight"].variance) == GAIN


class Tied(nn.Module):
    def __init__(self, table_first=True):
        super().__init__()
        table, out = nn.Embedding(9, 4), nn.Linear(4, 9)
        for name, layer in [("table", table), ("out", out)][:: 1 if table_first else -1]:
            setattr(self, name, layer)
        self.out.weight = self.table.weight


@pytest.mark.parametrize("table_first", [True, False])
def test_a_tied_weight_is_one_parameter_with_the_rule_of_its_narrowest_use(table_first):
    model = Tied(table_first)
    found = priors_of(model, rules=ByLayer(weights=0.5))
    assert set(found) == {"table.weight" if table_first else "out.weight", "out.bias"}
    (tied,) = (each for each in found.values() if "weight" in each.name)
    assert (tied.rule, tied.variance) == ("weight", 0.5 / 4)
    assert len(tied.shared_with) == 1
    wide = priors_of(model, rules=ByLayer(weights=40.0, embeddings=2.0))
    assert {each.variance for each in wide.values()} == {2.0, 1.0}
    assert "is tied to" in str(sbmc.describe_prior(model))


def test_a_layer_that_is_used_twice_is_tied_to_itself():
    layer = nn.Linear(4, 4)
    found = priors_of(nn.Sequential(layer, nn.ReLU(), layer))
    assert set(found) == {"0.weight", "0.bias"}
    assert found["0.weight"].variance == C / 4
    assert found["0.weight"].shared_with == ("2.weight",)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2, bias=False)


def test_a_module_may_speak_for_its_parts():
    model = nn.Sequential(Scaled(), nn.Linear(2, 1, bias=False))
    assert priors_of(model)["0.inner.weight"].variance == C / 3

    @layer_rules.register
    def rules_of_scaled(layer: Scaled):
        return {"inner.weight": Rule("of its own", "unit", factor=7.0)}

    found = priors_of(model)
    assert (found["0.inner.weight"].rule, found["0.inner.weight"].variance) == ("of its own", 7.0)
    assert found["1.weight"].variance == C / 2


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), ("biases", None)),
        ((5,), ("biases", None)),
        ((1, 5), ("weights", 5)),
        ((1, 7, 5), ("biases", None)),
        ((4, 3, 2), ("weights", 6)),
        ((3, 0), ("weights", 1)),
    ],
)
def test_an_unknown_parameter_goes_by_its_shape(shape, expected):
    rule = rule_by_shape(torch.Size(shape))
    assert (rule.scale, rule.fan_in) == expected
    assert rule.guessed


# The floor


def flat(model):
    return select_parameters(model).flatten(model).unsqueeze(0)


def set_all(model, **values):
    with torch.no_grad():
        for name, value in values.items():
            dict(model.named_parameters())[name].fill_(value)
    return model


def test_the_mean_square_of_trained_weights_is_at_most_twice_the_variance():
    rule = C / 4
    for value in (0.0, math.sqrt(2 * rule) * 0.999, math.sqrt(2 * rule) * 1.001, 30.0, -30.0):
        found = priors_of(model := set_all(nn.Linear(4, 2), weight=value), flat(model))
        each = found["weight"]
        assert each.variance == pytest.approx(max(rule, value**2 / 2))
        assert each.widened == (value**2 > 2 * rule)
        assert each.trained_rms == pytest.approx(abs(value) / math.sqrt(each.variance))
        assert each.trained_rms <= math.sqrt(2) * (1 + 1e-6)
        assert not found["bias"].widened


def test_gains_are_measured_from_one():
    model = set_all(nn.LayerNorm(4), weight=1.5, bias=0.0)
    assert priors_of(model, flat(model))["weight"].trained_rms == pytest.approx(1.0)
    for value in (0.0, 2.0):
        each = priors_of(model := set_all(nn.LayerNorm(4), weight=value), flat(model))["weight"]
        assert (each.variance, each.widened) == (0.5, True)


def test_of_several_networks_the_median_counts():
    models = [set_all(nn.Linear(4, 2).double(), weight=value) for value in (4.0, 1e200, 6.0)]
    found = priors_of(models[0], torch.cat([flat(each) for each in models]))
    assert found["weight"].variance == pytest.approx(18.0)


def test_one_network_that_ran_away_leaves_the_rule():
    model = set_all(nn.Linear(4, 2).double(), weight=1e200)
    assert priors_of(model, flat(model))["weight"].variance == C / 4


def test_no_variance_is_below_the_least():
    found = priors_of(nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 2)), rules=ByLayer(least=1.0))
    assert [each.variance for each in found.values()] == [C / 4, 1.0, 1.0, 1.0]


def test_the_floor_can_be_left_out():
    model = set_all(nn.Linear(4, 2), weight=30.0)
    each = priors_of(model, flat(model), ByLayer(widen=False))["weight"]
    assert (each.variance, each.widened) == (C / 4, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": 0}, "`weights` must be positive and finite, but got 0."),
        ({"biases": -1.0}, "`biases` must be positive and finite"),
        ({"gains": math.inf}, "`gains` must be positive and finite"),
        ({"embeddings": "1"}, "`embeddings` must be positive and finite"),
        ({"least": -1}, "`least` must be a non-negative number"),
        ({"widen": 1}, "`widen` must be True or False"),
    ],
)
def test_bad_scales_are_refused(options, words):
    with pytest.raises(BadInput, match=words):
        ByLayer(**options)
