# %% [markdown]
# # LoRA: sample the adapters
#
# A language model is adapted to a task by a few thousand weights of LoRA: sample those, and leave the
# model as it is.
#
# With PEFT, every other weight of the model is frozen already. `sbmc` samples what requires a
# gradient, so that a model with adapters needs no further word. What lies below the first adapter is
# computed once for all particles.

# %%
import matplotlib.pyplot as plt
import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification

import sbmc
from sbmc.confidence import detection
from sbmc.prediction import metrics

# %% [markdown]
# ## A model that knows a language
#
# Nothing is downloaded here, so the language is a small one: sentences of twelve words, about one of
# four topics, each with sixteen words of its own that are more frequent. The model learns all topics
# from many sentences, as a large one would have learned them from the internet. Yours would be
# `AutoModelForSequenceClassification.from_pretrained(...)`.

# %% quick="pretraining, epochs, particles = 10, 5, 4"
torch.manual_seed(0)
pretraining, epochs = 400, 150  # steps
particles = 20
WORDS, TOPICS, LENGTH = 64, 4, 12


# %%
def sentences(examples, topics, strength=4.0):
    """Sentences about some topics, whose words are `strength` times as frequent as others."""
    topic = torch.tensor(topics)[torch.randint(len(topics), (examples,))]
    of_topic = torch.arange(WORDS) // 16 == topic.unsqueeze(1)
    words = torch.multinomial(torch.where(of_topic, strength, 1.0), LENGTH, replacement=True)
    return {"input_ids": 1 + words}, topic  # 0 is for padding


def train(model, inputs, labels, steps, rate):
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=rate)
    model.train()
    for _ in range(steps):
        rows = torch.randperm(len(labels))[:64]
        optimiser.zero_grad()
        F.cross_entropy(model(inputs["input_ids"][rows]).logits, labels[rows]).backward()
        optimiser.step()
    return model.eval()


def accuracy(model, inputs, labels):
    with torch.no_grad():
        return (model(**inputs).logits.argmax(-1) == labels).double().mean()


def small_bert(classes):
    sizes = {"hidden_size": 48, "intermediate_size": 96, "max_position_embeddings": LENGTH}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": classes}
    return BertForSequenceClassification(BertConfig(vocab_size=WORDS + 1, **sizes, **layers))


language_model = small_bert(TOPICS)
train(language_model, *sentences(4000, [0, 1, 2, 3]), pretraining, 2e-3)
print(f"all four topics: {accuracy(language_model, *sentences(1000, [0, 1, 2, 3])):.1%} right")

# %% [markdown]
# ## The task
#
# Two of the topics are to be told apart where they are less plain, and eighty sentences have a label.
# PEFT adds adapters of rank 4 to the last block, and trains these and a new output layer.

# %%
data = sentences(80, [0, 1], strength=2.5)
test, strange = sentences(1000, [0, 1], strength=2.5), sentences(1000, [2, 3])
classifier = small_bert(2)
classifier.bert = language_model.bert
adapters = LoraConfig(
    task_type="SEQ_CLS",
    r=4,
    lora_alpha=8,
    target_modules=["query", "value", "dense"],
    layers_to_transform=[1],
)
adapted = train(get_peft_model(classifier, adapters), *data, epochs, 5e-3)
adapted.print_trainable_parameters()
print(f"training sentences: {accuracy(adapted, *data):.1%} right")

# %% [markdown]
# ## Sample the adapters
#
# The model goes in as PEFT has made it. What is sampled are the adapters and the output layer, since
# all else is frozen. `s=0` is the adapter as it was trained, `s=0.1` stays near it, and `s=1` asks for
# all adapters that fit.

# %%
posteriors = {s: sbmc.fit(adapted, data, s=s, particles=particles, seed=0) for s in (0, 0.1, 1)}
print(f"{posteriors[1].space.dim:,} weights are sampled, such as {posteriors[1].space.names[0]}")
predictions = {}
for s, posterior in posteriors.items():
    known, unknown = posterior.predict(test[0]), posterior.predict(strange[0])
    predictions[s] = known, unknown
    auroc = detection(known.total.numpy(), unknown.total.numpy()).auroc
    print(
        f"s = {s:<4} accuracy {metrics.accuracy(known, test[1]):.1%}   NLL "
        f"{metrics.nll(known, test[1]):.3f}   ECE {metrics.ece(known, test[1]):.3f}   "
        f"other topics told apart, AUROC {auroc:.3f}"
    )

# %% alt="Two pairs of histograms of the entropy of predictions, for sentences about the task's two topics and about other topics. With the adapter as it was trained both pile up at zero. With sampled adapters, sentences about other topics have clearly more entropy than those of the task."
figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), sharey=True)
bins = torch.linspace(0, 0.7, 22).numpy()
for panel, s, title in zip(axes, (0, 1), ("as it was trained", "sampled, s = 1"), strict=True):
    labels = ("topics of the task", "other topics")
    for prediction, label, style in zip(predictions[s], labels, ("-", "--"), strict=True):
        share = torch.full_like(prediction.total, 1 / len(prediction.total))
        panel.hist(
            prediction.total, bins, weights=share, histtype="step", lw=2, ls=style, label=label
        )
    panel.set(title=f"Adapter {title}", xlabel="entropy of the prediction (nats)")
axes[0].set_ylabel("share of sentences")
axes[1].legend()
plt.show()

# %% [markdown]
# Eighty labels leave many adapters possible. One of them answers everything with the same certainty;
# together they are better calibrated on the task, and unsure of topics that it does not have.
#
# ## Where to go on
#
# - What a prior on LoRA's two factors means, and how factors are balanced before they are anchored:
#   [Language models](../language.md).
# - Only the output layer, which is cheaper and says less: [BERT's last layer](bert_last_layer.md).
# - Which parameters are sampled is `parameters=`: [Start with your own network](own_cnn.md).
