"""Particles as adapters of PEFT: loaded by PEFT alone, they compute what the posterior does."""

import json
import sys

import peft
import pytest
import torch
import transformers
from pretrained_cases import classes
from safetensors.torch import load_file, save_file
from torch import nn

import sbmc
from sbmc import BadInput
from sbmc.language import LoraHead, save_adapters, save_head_adapters

ROWS = torch.randint(1, 20, (10, 5), generator=torch.Generator().manual_seed(0))
DATA = ({"input_ids": ROWS}, torch.arange(10) % 2)
# transformers and peft warn of what is theirs alone.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def bert():
    """A classifier of texts with random weights, always the same."""
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=8,
        max_position_embeddings=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_labels=2,
    )
    return transformers.BertForSequenceClassification(config).eval()


def adapted(base=None, *, adapter="default", **options):
    """With adapters that are not zero, as after training."""
    settings = {"task_type": "SEQ_CLS", "r": 2, "lora_alpha": 6, "target_modules": ["query", "key"]}
    config = peft.LoraConfig(**{**settings, **options})
    model = peft.get_peft_model(base or bert(), config, adapter_name=adapter).eval()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.copy_(0.3 * torch.randn(value.shape, generator=generator))
    return model


# Where particles end plays no part: two steps move each of them to a place of its own.
QUICK = {
    "s": 0.1,
    "sampler": sbmc.HMC(steps=2, leapfrog=1, step_size=0.05, adapt=False, warmup=0.0),
    "progress": False,
}


def fitted(model, **options):
    """Four particles of different weights."""
    posterior = sbmc.fit(model, DATA, particles=4, **QUICK, **options)
    posterior.within[:] = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    return posterior.reweighted("equal")


@pytest.fixture(scope="module")
def posterior():
    return fitted(adapted())


def loaded(folder, base=None):
    """The adapters of a folder, each loaded by PEFT on a fresh model, with their weights."""
    index = json.loads((folder / "weights.json").read_text("utf-8"))
    for each in index["adapters"]:
        model = peft.PeftModel.from_pretrained(base() if base else bert(), folder / each["folder"])
        yield model.eval(), each["weight"]


def require_same(folder, posterior, base=None):
    """Outputs of each adapter are its module's, and their mixture is the posterior's."""
    mixture = torch.zeros(len(ROWS), 2, dtype=torch.float64)
    total = 0.0
    pairs = zip(loaded(folder, base), posterior.models(), strict=True)
    with torch.no_grad():
        for (ours, weight), (module, expected) in pairs:
            logits = ours(input_ids=ROWS).logits
            torch.testing.assert_close(logits, module(input_ids=ROWS).logits, rtol=0, atol=1e-6)
            assert weight == expected
            mixture += weight * logits.double().softmax(-1)
            total += weight
    assert total == pytest.approx(1)
    torch.testing.assert_close(
        mixture, posterior.predict(DATA[0]).probs.double(), rtol=0, atol=1e-6
    )


def test_each_adapter_is_its_particle_and_together_they_are_the_posterior(posterior, tmp_path):
    folder = save_adapters(posterior, tmp_path / "a")
    require_same(folder, posterior)
    assert sorted(path.name for path in (folder / "particle_002").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors",
    ]  # fmt: skip
    config = json.loads((folder / "particle_000" / "adapter_config.json").read_text("utf-8"))
    assert (config["r"], config["lora_alpha"]) == (2, 6)
    assert sorted(config["target_modules"]) == ["key", "query"]
    assert config["inference_mode"] is True


def test_names_are_those_that_peft_itself_writes(posterior, tmp_path):
    folder = save_adapters(posterior, tmp_path / "a", particles=[1])
    module = dict(enumerate(each for each, _ in posterior.models()))[1]
    module.save_pretrained(tmp_path / "b")
    ours = load_file(folder / "particle_001" / "adapter_model.safetensors")
    theirs = load_file(tmp_path / "b" / "adapter_model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    one, other = (
        json.loads((each / "adapter_config.json").read_text("utf-8"))
        for each in (folder / "particle_001", tmp_path / "b")
    )
    one["target_modules"], other["target_modules"] = (
        sorted(each["target_modules"]) for each in (one, other)
    )
    assert one == other


@pytest.mark.parametrize(
    "options",
    [
        {"adapter": "mine"},
        {"use_rslora": True},
        {"use_dora": True},
        {"bias": "lora_only"},
        {"rank_pattern": {"key": 3}, "alpha_pattern": {"key": 5}},
        {"target_modules": ["word_embeddings", "query"]},
        {"layers_to_transform": [1], "task_type": None, "modules_to_save": ["classifier"]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_other_configurations_of_lora(options, tmp_path):
    posterior = fitted(adapted(**options))
    require_same(save_adapters(posterior, tmp_path / "a"), posterior)


def test_only_some_factors_sampled_and_particles_of_weight_zero(tmp_path):
    posterior = fitted(adapted(), parameters=lambda name: "lora_B" in name)
    require_same(save_adapters(posterior, tmp_path / "a"), posterior)
    posterior.within[:] = torch.tensor([0.0, 0.25, 0.0, 0.75])
    posterior = posterior.reweighted("equal")
    folder = save_adapters(posterior, tmp_path / "b")
    assert [path.name for path in sorted(folder.iterdir())] == [
        "particle_001", "particle_003", "weights.json",
    ]  # fmt: skip
    require_same(folder, posterior)


def test_a_peft_model_inside_of_a_module(tmp_path):
    class Around(nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.inside = inside

        def forward(self, input_ids):
            return self.inside(input_ids=input_ids)

    posterior = fitted(Around(adapted()))
    require_same(save_adapters(posterior, tmp_path / "a"), posterior)


def swap(folder, first, second):
    """A bug: two tensors of an adapter in each other's places."""
    path = folder / "particle_001" / "adapter_model.safetensors"
    tensors = load_file(path)
    names = [
        next(name for name in tensors if f"layer.0.attention.self.{each}" in name)
        for each in (first, second)
    ]
    tensors[names[0]], tensors[names[1]] = tensors[names[1]], tensors[names[0]]
    save_file(tensors, path, metadata={"format": "pt"})


def change(folder, **values):
    """A bug: another configuration."""
    path = folder / "particle_001" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def reweigh(folder):
    """A bug: the weights of two particles in each other's places."""
    index = json.loads((folder / "weights.json").read_text("utf-8"))
    first, second = index["adapters"][:2]
    first["weight"], second["weight"] = second["weight"], first["weight"]
    (folder / "weights.json").write_text(json.dumps(index), "utf-8")


@pytest.mark.parametrize(
    "plant",
    [
        lambda folder: swap(folder, "query.lora_A", "key.lora_A"),
        lambda folder: swap(folder, "query.lora_B", "key.lora_B"),
        lambda folder: change(folder, lora_alpha=8),
        lambda folder: change(folder, use_rslora=True),
        reweigh,
    ],
    ids=["A swapped", "B swapped", "alpha", "rslora", "weights"],
)
def test_planted_bugs_are_caught(plant, posterior, tmp_path):
    folder = save_adapters(posterior, tmp_path / "a")
    plant(folder)
    with pytest.raises(AssertionError):
        require_same(folder, posterior)


def llama(**settings):
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=12,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        **settings,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.filterwarnings("ignore:.*tie_word_embeddings", "ignore:.*tied")
def test_a_head_over_some_tokens_is_an_adapter_of_the_output_layer(tied, tmp_path):
    def base():
        return llama(tie_word_embeddings=tied)

    model = base()
    tokens = torch.tensor([7, 2, 9, 0])
    text = torch.randint(0, 12, (8, 3), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = model.model(text).last_hidden_state[:, -1]
        own = model(text).logits
    head = LoraHead(model.lm_head.weight[tokens], rank=2)
    nn.init.normal_(head.up.weight, std=0.3)
    data = (states, torch.arange(8) % 4)
    posterior = sbmc.fit(head, data, particles=3, **QUICK)
    folder = save_head_adapters(posterior, tmp_path / "a", vocabulary=12, tokens=tokens)
    mixture = torch.zeros(8, 4, dtype=torch.float64)
    pairs = zip(loaded(folder, base), posterior.models(), strict=True)
    others = [token for token in range(12) if token not in tokens.tolist()]
    with torch.no_grad():
        for (ours, weight), (module, _) in pairs:
            logits = ours(text).logits
            torch.testing.assert_close(logits[:, -1, tokens], module(states), rtol=0, atol=1e-6)
            assert torch.equal(logits[..., others], own[..., others])
            mixture += weight * logits[:, -1, tokens].double().softmax(-1)
    expected = posterior.predict(states).probs.double()
    torch.testing.assert_close(mixture, expected, rtol=0, atol=1e-6)


def test_a_head_over_all_tokens_needs_no_list(tmp_path):
    head = LoraHead(torch.eye(4, 3), rank=2)
    nn.init.normal_(head.up.weight, std=0.3)
    data = (torch.randn(8, 3), torch.arange(8) % 4)
    posterior = sbmc.fit(head, data, particles=2, **QUICK)
    folder = save_head_adapters(posterior, tmp_path / "a", vocabulary=4, base_model="some/model")
    stored = load_file(folder / "particle_001" / "adapter_model.safetensors")
    up = dict(enumerate(each for each, _ in posterior.models()))[1].up.weight
    assert torch.equal(stored["base_model.model.lm_head.lora_B.weight"], up)
    config = json.loads((folder / "particle_001" / "adapter_config.json").read_text("utf-8"))
    assert (config["r"], config["lora_alpha"]) == (2, 2)
    assert config["base_model_name_or_path"] == "some/model"
    for tokens in ([0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [0.0, 1.0, 2.0, 3.0]):
        with pytest.raises(BadInput, match="`tokens` must be the row of each of the 4 classes"):
            save_head_adapters(posterior, tmp_path / "b", vocabulary=4, tokens=tokens)
    with pytest.raises(BadInput, match="a LoraHead is for save_head_adapters"):
        save_adapters(posterior, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_has_no_lora_is_refused_in_words(posterior, tmp_path):
    with pytest.raises(
        BadInput, match=r"over the LoRA parameters .* but got one over a Sequential"
    ):
        save_adapters(classes(), tmp_path / "a")
    with pytest.raises(BadInput, match=r"network is a LoraHead.* one over a PeftModelFor"):
        save_head_adapters(posterior, tmp_path / "a", vocabulary=3)
    with pytest.raises(BadInput, match="`posterior` must be an"):
        save_adapters(None, tmp_path / "a")
    model = adapted()
    classifier = fitted(model, parameters=lambda name: "modules_to_save" in name)
    with pytest.raises(BadInput, match="without LoRA's"):
        save_adapters(classifier, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_sampled_parameter_that_no_adapter_holds_is_named(tmp_path):
    wanted = ("lora_", "pooler")
    model = adapted()
    for name, value in model.named_parameters():
        value.requires_grad_(any(each in name for each in wanted))
    posterior = fitted(model)
    with pytest.raises(
        BadInput, match=r"but got 'base_model\.model\.bert\.pooler.*modules_to_save"
    ):
        save_adapters(posterior, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_changes_the_model_below_is_refused(tmp_path):
    posterior = fitted(adapted(init_lora_weights="pissa"))
    with pytest.raises(BadInput, match="others change the model below, but got 'pissa'"):
        save_adapters(posterior, tmp_path / "a")


@pytest.mark.parametrize("particles", [[], [0, 0], [4], [-1], "01", [0.5], [True]])
def test_other_particles_are_refused(particles, posterior, tmp_path):
    with pytest.raises(BadInput, match="`particles` must be different whole numbers from 0 to 3"):
        save_adapters(posterior, tmp_path / "a", particles=particles)


def test_a_folder_in_use_is_refused_and_an_empty_one_taken(posterior, tmp_path):
    (tmp_path / "a").mkdir()
    save_adapters(posterior, tmp_path / "a", particles=(2,))
    with pytest.raises(BadInput, match="`folder` must be a new folder, or an empty one"):
        save_adapters(posterior, tmp_path / "a")
    index = json.loads((tmp_path / "a" / "weights.json").read_text("utf-8"))
    assert index["adapters"] == [{"folder": "particle_002", "particle": 2, "weight": 0.3}]


def test_an_error_on_the_way_leaves_nothing(posterior, tmp_path, monkeypatch):
    from sbmc.language import peft_adapters

    def fail(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(peft_adapters, "write_json", fail)
    with pytest.raises(OSError, match="full"):
        save_adapters(posterior, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_without_peft_the_message_names_the_extra(posterior, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"pip install 'sbmc\[language\]'"):
        save_adapters(posterior, tmp_path / "a")
