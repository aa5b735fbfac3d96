# %% [markdown]
# # Hugging Face BERT: sample the last layer
#
# A text classifier sorts customers' messages into three trays: does it notice a message that belongs
# in none of them?
#
# Sampling all weights of a large language model is dear. Its last layer is a linear model on
# features that do not change, so that these are computed once, and sampling costs next to nothing
# however large the rest is.

# %%
import itertools
import random

import matplotlib.pyplot as plt
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import sbmc
from sbmc.confidence import detection

# %% [markdown]
# ## Messages
#
# So that nothing has to be downloaded, this file writes its messages itself. Some have two problems,
# and whoever labelled them chose one.

# %%
random.seed(0)
torch.manual_seed(0)
PROBLEMS = (
    [
        " ".join(words)
        for words in itertools.product(
            ("my parcel", "the package", "the courier", "my box", "the shipment"),
            (
                "has not arrived",
                "is late again",
                "went to a wrong door",
                "got lost",
                "is in transit since monday",
            ),
        )
    ],
    [
        " ".join(words)
        for words in itertools.product(
            ("my card", "the invoice", "the bill", "my bank account", "the transfer"),
            (
                "was charged twice",
                "shows a wrong amount",
                "was declined",
                "has a strange fee",
                "is missing the discount",
            ),
        )
    ],
    [
        " ".join(words)
        for words in itertools.product(
            ("the jacket", "this lamp", "one shoe", "the blue dress", "the kettle"),
            (
                "is too small",
                "came broken",
                "does not fit",
                "has a scratch",
                "must go back for a refund",
            ),
        )
    ],
)
GREETINGS = ("hello", "hi", "good morning", "dear team", "please help", "sorry to bother you")
CLOSINGS = ("thanks", "please answer soon", "this is urgent", "what can i do", "best wishes")
OTHER = (
    "which museums are open on sunday", "my landlord wants to raise the rent",
    "the recipe asks for two eggs and some milk", "our cat has slept on the piano all day",
    "how do i repair the chain of a bicycle", "i would like to apply for a job in your kitchen",
    "the second train to the coast leaves at noon", "could you recommend a book about whales",
    "my neighbour sings in a choir every evening", "tomorrow it will rain in the mountains",
    "what is the capital of australia", "the doctor says that i should drink more water",
)  # fmt: skip


def message(*trays):
    problems = " and ".join(random.choice(PROBLEMS[tray]) for tray in trays)
    return f"{random.choice(GREETINGS)} {problems} {random.choice(CLOSINGS)}"


def write(examples, two_problems=0.2):
    trays = [random.sample(range(3), 1 + (random.random() < two_problems)) for _ in range(examples)]
    return [message(*each) for each in trays], torch.tensor([random.choice(each) for each in trays])


train_texts, train_labels = write(200)
groups = {
    "one problem": [message(random.randrange(3)) for _ in range(200)],
    "two problems": [message(*random.sample(range(3), 2)) for _ in range(200)],
    "no complaint at all": [f"{hi} {text}" for text in OTHER for hi in GREETINGS],
}
for name, texts in groups.items():
    print(f"{name}: {texts[0]}")

# %% [markdown]
# ## BERT
#
# This BERT is small and made from its configuration, and its words are those above. Yours would come
# trained: `BertForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)`, and its
# tokenizer by `BertTokenizer.from_pretrained("bert-base-uncased")`. All that follows is the same.

# %% quick="epochs = 2"
epochs = 20

# %%
words = sorted(
    {word for text in [*train_texts, *itertools.chain(*groups.values())] for word in text.split()}
)
vocabulary = {
    word: number
    for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
}
tokenizer = BertTokenizer(vocab=vocabulary)


def tokens(texts):
    return dict(
        tokenizer(texts, padding="max_length", max_length=32, truncation=True, return_tensors="pt")
    )


config = BertConfig(
    vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=128, max_position_embeddings=32, num_labels=3,
)  # fmt: skip
bert = BertForSequenceClassification(config)
inputs = tokens(train_texts)
optimiser = torch.optim.AdamW(bert.parameters(), lr=1e-3)
bert.train()
for _ in range(epochs):
    for rows in torch.randperm(len(train_labels)).split(32):
        optimiser.zero_grad()
        bert(
            **{key: value[rows] for key, value in inputs.items()}, labels=train_labels[rows]
        ).loss.backward()
        optimiser.step()
bert.eval()
with torch.no_grad():
    right = bert(**inputs).logits.argmax(-1) == train_labels
print(f"training messages in the tray of their label: {right.double().mean():.1%}")

# %% [markdown]
# ## Its last layer, sampled
#
# `parameters="last"` is all there is to say, and inputs are a dict, as the tokenizer gives them. A
# pattern on names chooses more: `"classifier|pooler"` adds the layer in front of it. `s=0` is the
# network itself, to compare with.

# %%
data = inputs, train_labels
prior = {"s": 1, "prior_variance": 1.0, "particles": 20, "seed": 0}
posteriors = {
    "BERT itself": sbmc.fit(bert, data, s=0),
    "last layer sampled": sbmc.fit(bert, data, parameters="last", **prior),
    "last two sampled": sbmc.fit(bert, data, parameters="classifier|pooler", **prior),
}
everything = sum(parameter.numel() for parameter in bert.parameters())
for name, posterior in posteriors.items():
    sampled = posterior.space.dim if posterior.settings["s"] else 0
    print(f"{name}: {sampled:,} of {everything:,} weights sampled")

# %% [markdown]
# ## What they say
#
# A message is put into a tray if its probability there is above 90 %. Messages that are no complaint
# should not be. "Told apart" is the probability that a message without a complaint has the larger
# entropy than one with a complaint (AUROC).

# %%
predictions = {
    name: {group: posterior.predict(tokens(texts)) for group, texts in groups.items()}
    for name, posterior in posteriors.items()
}
print(f"{'above 90 %:':20s}" + "".join(f"{group:>22s}" for group in groups) + "   told apart")
for name, of_groups in predictions.items():
    shares = [(each.probs.max(-1).values > 0.9).double().mean() for each in of_groups.values()]
    complaint, none = of_groups["one problem"].total, of_groups["no complaint at all"].total
    apart = detection(complaint.numpy(), none.numpy()).auroc
    print(f"{name:20s}" + "".join(f"{share:22.0%}" for share in shares) + f"{apart:13.3f}")

# %% alt="Three histograms of the largest probability that messages without a complaint get. For BERT itself nearly all are above 90 percent. With the last layer sampled they spread to lower values, and with the last two layers sampled most are below 90 percent."
figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.9), sharex=True, sharey=True)
bins = torch.linspace(1 / 3, 1, 21).numpy()
for panel, (name, of_groups) in zip(axes, predictions.items(), strict=True):
    for group, colour, style in (("one problem", "C0", "-"), ("no complaint at all", "C1", "--")):
        largest = of_groups[group].probs.max(-1).values
        share = torch.full_like(largest, 1 / len(largest))
        look = {"color": colour, "ls": style, "lw": 2, "histtype": "step", "label": group}
        panel.hist(largest, bins, weights=share, **look)
    panel.axvline(0.9, color="C6", lw=1, ls=":")
    panel.set(title=name, xlabel="largest probability")
axes[0].set_ylabel("share of messages")
axes[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# Real complaints stay nearly where they were. Messages that belong in no tray lose their false certainty,
# and lose more of it where two layers are sampled: features that were made for three trays throw
# away much of what tells a recipe from a parcel, and the last layer alone cannot bring it back. So
# sample as far down as your budget allows.
#
# The sizes and the prior variance were chosen after a look at these data. So this page shows how it is
# done, and is no evidence; [the gauntlet](../gauntlet.md) is.
#
# ## Where to go on
#
# - Adapters are a way to sample little of every layer: [LoRA](lora.md).
# - Sentence encoders and image encoders, whose features are kept in files:
#   [From texts or pictures to a head](../embedding.md).
# - Decide by a threshold with a guarantee: [abstain](abstain_with_guarantee.md).
