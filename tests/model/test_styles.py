"""However a network is written, it is evaluated the same way: the commonest styles, one by one."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sbmc
from sbmc.likelihoods import Categorical
from sbmc.model.data import Examples
from sbmc.model.forward import build_forward
from sbmc.model.fused import FusedForward
from sbmc.model.kernels.native import chain
from sbmc.model.kernels.native.plan import NotAChain
from sbmc.model.parameters import select_parameters
from sbmc.target.engine import LikelihoodEngine

PARTICLES = 3


def compiled():
    try:
        chain.library()
    except NotAChain:
        return False
    return True


needs_compiler = pytest.mark.skipif(not compiled(), reason="there is no C compiler here")


class Sequence(nn.Sequential):
    """The network that all styles below amount to."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 5, 3),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(20, 8),
            nn.GELU(),
            nn.Linear(8, 3),
        )


class Layers(nn.Module):
    """The same layers under names of their own; what is done between them is for subclasses."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 5, 3)
        self.fc1, self.fc2 = nn.Linear(20, 8), nn.Linear(8, 3)
        self.dropout = nn.Dropout(0.3)


class Functions(Layers):
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = torch.flatten(torch.tanh(self.conv2(x)), 1)
        return self.fc2(self.dropout(F.gelu(self.fc1(x))))


class Methods(Layers):
    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), kernel_size=(2, 2), stride=2)
        x = self.conv2(x).tanh().flatten(2)
        x = F.gelu(self.fc1(x.view(x.size(0), -1)))
        return self.fc2(F.dropout(x, 0.2, self.training))


class InPlace(Layers):
    def forward(self, x):
        x = F.max_pool2d(F.relu_(self.conv1(x)), 2)
        x = self.conv2(x).tanh_().reshape(len(x), 5, 4).flatten(1, -1)
        return self.fc2(F.gelu(self.fc1(x)))


class Affine(nn.Module):
    """Weights under names that no layer has."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(3, 8) / 3)
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return F.linear(x, self.matrix, self.shift)


class RawParameters(Functions):
    def __init__(self):
        super().__init__()
        self.fc2 = Affine()


class FlatInputs(Functions):
    def forward(self, x):
        return super().forward(x.view(-1, 1, 8, 8))


def written_like(style):
    """The network in some style, with the sequence's weights."""
    torch.manual_seed(0)
    sequence, net = Sequence(), style()
    with torch.no_grad():
        for ours, theirs in zip(net.parameters(), sequence.parameters(), strict=True):
            ours.copy_(theirs)
    return net, sequence


def data(flat=False):
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(50, 1, 8, 8, generator=rng)
    labels = torch.randint(3, (50,), generator=rng)
    return Examples(images.flatten(1) if flat else images, labels)


def make_engine(net, examples):
    space = select_parameters(net)
    forward = build_forward(net, space, examples.inputs[:2])
    engine = LikelihoodEngine(forward, examples, Categorical(), space.flatten(net))
    engine.settle()
    return engine


@needs_compiler
@pytest.mark.parametrize("style", [Functions, Methods, InPlace, RawParameters, FlatInputs])
def test_every_style_reaches_the_same_kernel_with_the_same_bits(style):
    net, sequence = written_like(style)
    engine = make_engine(net, data(flat=style is FlatInputs))
    expected = make_engine(sequence, data())
    assert engine.kernel == expected.kernel == "chain"
    assert engine.chunks == expected.chunks
    start = select_parameters(sequence).flatten(sequence)
    theta = start + 0.1 * torch.randn(4, len(start), generator=torch.Generator().manual_seed(2))
    for ours, theirs in zip(engine(theta), expected(theta), strict=True):
        assert torch.equal(ours, theirs)


class GlobalMean(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(2, 6, 3), nn.Linear(6, 3)
        self.pool = pool

    def forward(self, x):
        return self.fc(self.pool(torch.relu(self.conv(x))))


@needs_compiler
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: x.mean((2, 3)),
        lambda x: x.mean([-1, -2]),
        lambda x: torch.mean(x, dim=(2, 3), keepdim=True).squeeze(-1).squeeze(-1),
        lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
        lambda x: F.avg_pool2d(x, 4).view(-1, 6),
    ],
)
def test_every_global_mean_reaches_the_kernel(pool):
    net = GlobalMean(pool)
    rng = torch.Generator().manual_seed(1)
    examples = Examples(
        torch.rand(9, 2, 6, 6, generator=rng), torch.randint(3, (9,), generator=rng)
    )
    assert make_engine(net, examples).kernel == "chain"


class Bag(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag, self.fc = nn.EmbeddingBag(11, 6, mode=mode), nn.Linear(6, 3)

    def forward(self, ids):
        return self.fc(torch.relu(self.bag(ids)))


class Words(nn.Module):
    """Embeddings, one of them without gradient for padding, and a mean over words."""

    def __init__(self, padding):
        super().__init__()
        self.words = nn.Embedding(11, 6, padding_idx=padding)
        self.places = nn.Parameter(torch.randn(4, 6))
        self.norm, self.fc = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, ids):
        return self.fc(self.norm(self.words(ids) + self.places).mean(1))


class Encoder(nn.Module):
    def __init__(self, layers=2, norm_first=False, activation="relu", batch_first=True):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        block = nn.TransformerEncoderLayer(
            8, 2, 12, norm_first=norm_first, activation=activation, batch_first=batch_first
        )
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, ids):
        return self.fc(self.encoder(self.words(ids)).mean(1))


class Attention(nn.Module):
    """Attention by hand, with a mask, as in decoders."""

    def __init__(self, way):
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 3)
        self.way = way

    def forward(self, ids):
        examples, length = ids.shape
        parts = self.qkv(self.words(ids)).chunk(3, -1)
        q, k, v = (p.view(examples, length, 2, 4).transpose(1, 2) for p in parts)
        mixed = self.way(q, k, v).transpose(1, 2).reshape(examples, length, 8)
        return self.out(mixed)[:, -1]


def attend_by_hand(q, k, v):
    hidden = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    scores = (q @ k.mT / 2).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


def attend_with_a_mask(q, k, v):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()[None, None].expand(len(q), 1, 4, 4)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_causally(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_by_einsum(q, k, v):
    return torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v)


class MultiHead(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.fc = nn.Linear(8, 3)

    def forward(self, ids):
        x = self.words(ids)
        return self.fc(self.attend(x, x, x, need_weights=False)[0].flatten(1)[:, :8])


TEXTS = {
    "bag, mean": lambda: Bag("mean"),
    "bag, sum": lambda: Bag("sum"),
    "words": lambda: Words(None),
    "words with padding": lambda: Words(2),
    "encoder": Encoder,
    "encoder, norm first, gelu": lambda: Encoder(1, True, "gelu"),
    "encoder, examples second": lambda: Encoder(1, batch_first=False),
    "multi-head attention": MultiHead,
    "multi-head attention, no bias": lambda: MultiHead(bias=False),
    "attention by hand": lambda: Attention(attend_by_hand),
    "attention with a mask": lambda: Attention(attend_with_a_mask),
    "causal attention": lambda: Attention(attend_causally),
    "attention by einsum": lambda: Attention(attend_by_einsum),
}


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1)
        self.bn1, self.bn2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.short(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class Shapes(nn.Module):
    """Reshapes, slices and joins."""

    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(12, 12), nn.Linear(20, 3)
        self.unflatten = nn.Unflatten(1, (3, 4))
        self.gate = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        assert x.dim() == 4, "control flow by shapes is fine"
        a = self.unflatten(torch.tanh(self.fc(nn.Flatten()(x)[:, :12])))
        b = torch.stack([a[:, 0], a[:, 1] * self.gate, a[..., 2, :]], 1).permute(0, 2, 1)
        joined = torch.cat([a.flatten(1), b.amax(-1), b[:, :, 0].expand(len(x), -1)], dim=-1)
        return self.last(F.pad(joined, (0, 20 - joined.shape[1])))


IMAGES = {
    "ResNet": ResNet,
    "shapes": Shapes,
    "group norm": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ),
}


def by_the_module(net, space, theta, inputs):
    """Outputs and gradients of their weighted sums from the module itself."""
    outputs, gradients = [], []
    for index, row in enumerate(theta):
        module = copy.deepcopy(net).eval()
        space.write(row, module)
        result = module(inputs if len(inputs) != len(theta) else inputs[index])
        chosen = [dict(module.named_parameters())[name] for name in space.names]
        slopes = torch.autograd.grad(weighted(result), chosen)
        outputs.append(result.detach())
        gradients.append(torch.cat([slope.flatten() for slope in slopes]))
    return torch.stack(outputs), torch.stack(gradients)


def weighted(outputs):
    return (outputs * torch.linspace(-1, 2, outputs.numel()).view(outputs.shape).to(outputs)).sum()


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("particles", [1, PARTICLES])
@pytest.mark.parametrize("name", [*TEXTS, *IMAGES])
def test_common_networks_are_what_the_module_is(name, particles, stacked):
    torch.manual_seed(1)
    net = {**TEXTS, **IMAGES}[name]().double()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    rng = torch.Generator().manual_seed(3)
    lead = (particles, 5) if stacked else (5,)
    inputs = (
        torch.randint(11, (*lead, 4), generator=rng)
        if name in TEXTS
        else torch.rand(*lead, 3, 6, 6, generator=rng, dtype=torch.float64)
    )
    few = inputs[0] if stacked else inputs
    for parameters in ("all", "fc|last"):
        if name in ("group norm",) or (parameters != "all" and name.startswith(("att", "causal"))):
            parameters = "all"
        space = select_parameters(net, parameters)
        start = space.flatten(net)
        jump = torch.randn(particles, space.dim, generator=rng, dtype=torch.float64)
        theta = (start + 0.2 * jump).requires_grad_()
        forward = build_forward(net, space, few[:2])
        assert forward.path == "fused"
        outputs = forward(theta, inputs, stacked=stacked)
        (gradient,) = torch.autograd.grad(sum(weighted(each) for each in outputs), theta)
        expected = by_the_module(net, space, theta.detach(), inputs)
        for ours, theirs in zip((outputs.detach(), gradient), expected, strict=True):
            scale = float(theirs.abs().max())
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10 * scale)


def test_a_batch_norm_is_folded_into_the_layer_before_it():
    net = ResNet().double()
    space = select_parameters(net)
    forward = FusedForward(net, space, torch.rand(2, 3, 6, 6, dtype=torch.float64))
    names = [step.operation.name for step in forward._steps]
    assert names.count("folded.default") == 7
    assert "aten.batch_norm.default" not in names
    frozen = FusedForward(net, select_parameters(net, "bn1"), torch.rand(2, 3, 6, 6).double())
    assert "folded.default" not in [step.operation.name for step in frozen._steps]


def test_an_encoder_is_sampled_and_predicts():
    torch.manual_seed(0)
    net = Encoder(1)
    ids, labels = torch.randint(11, (12, 4)), torch.randint(3, (12,))
    sampler = sbmc.HMC(steps=2, leapfrog=1, step_size=0.01)
    posterior = sbmc.fit(net, (ids, labels), sampler=sampler, particles=2, progress=False)
    assert posterior.settings["path"] == "fused"
    assert torch.isfinite(posterior.predict(ids).probs).all()


def test_large_convolutions_go_one_particle_after_another(monkeypatch):
    """The same numbers, whichever way convolutions of many particles are done."""
    monkeypatch.setattr("sbmc.model.rules.LARGE_CONVOLUTION", 1)
    test_common_networks_are_what_the_module_is("ResNet", PARTICLES, stacked=True)
    test_common_networks_are_what_the_module_is("ResNet", PARTICLES, stacked=False)
