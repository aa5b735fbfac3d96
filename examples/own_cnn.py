# %% [markdown]
# # A CNN that knows what it has never seen
#
# A convolutional network learns the digits 0 to 7, and is then shown 8s and 9s: which of its
# answers deserve trust?
#
# A classifier has no way to say "none of these". It spreads its probability over the classes that
# it knows, and often puts nearly all of it on one. The way out is to ask many networks that fit the
# training data about as well, and to look at where they disagree. `sbmc` makes them from the one
# that you have.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import sbmc
from sbmc.datasets import load_dataset

torch.manual_seed(0)
data = load_dataset("digits")  # 8 × 8 pixels, from scikit-learn: nothing is downloaded
inputs, labels = data.train
print(f"{len(labels)} digits to learn from, {len(data.test[1])} to test on")

# %% [markdown]
# ## Your network, trained your way
#
# Any `nn.Module` and any training loop will do. This one has convolutions, dropout and a `forward`
# of its own.


# %% quick="epochs = 5"
class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(64, 8)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.head(self.dropout(x.flatten(1)))


epochs = 60

# %%
net = Net()
optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
for _ in range(epochs):
    for batch in torch.randperm(len(labels)).split(64):
        optimiser.zero_grad()
        F.cross_entropy(net(inputs[batch]), labels[batch]).backward()
        optimiser.step()
net.eval()
weights = sum(parameter.numel() for parameter in net.parameters())
print(f"{weights:,} weights, trained for {epochs} epochs")

# %% [markdown]
# ## One call
#
# `validation` are rows that the network has not seen. They decide how far from it to look: `fit`
# samples networks nearby and farther off, and mixes them by how well each predicts those rows.

# %%
posterior = sbmc.fit(net, data.train, validation=data.validation, seed=0)
print(posterior.mixture)

# %% [markdown]
# ## What it says about digits that it cannot know
#
# The entropy of a prediction has two parts. The *aleatoric* one is in the digit itself: every
# network sees that it is smudged. The *epistemic* one is disagreement between networks, and it is
# the one to look at for strange inputs.

# %%
test_inputs, test_labels = data.test
strange = torch.cat([data.ood["8"], data.ood["9"]])
known, unknown = posterior.predict(test_inputs), posterior.predict(strange)
right = known.labels == test_labels

with torch.no_grad():
    accuracy = (net(test_inputs).argmax(-1) == test_labels).double().mean()
    sure_alone = (net(strange).softmax(-1).max(-1).values > 0.9).double().mean()
sure = (unknown.probs.max(-1).values > 0.9).double().mean()
print(f"test accuracy: the network {accuracy:.1%}, the posterior {right.double().mean():.1%}")
print(
    f"8s and 9s called 0 to 7 with more than 90 %: the network {sure_alone:.0%}, "
    f"the posterior {sure:.0%}"
)

# %% alt="Left, the share of digits by epistemic entropy: correctly classified digits pile up near zero, while wrong ones and the unknown 8s and 9s spread far to the right. Right, six 8s and 9s about which the sampled networks disagree most, each with the two classes that they waver between."
figure, axes = plt.subplot_mosaic("hhhabc;hhhdef", figsize=(8.4, 3.3))
groups = {
    "classified correctly": known.epistemic[right],
    "classified wrongly": known.epistemic[~right],
    "8s and 9s, never seen": unknown.epistemic,
}
bins = torch.linspace(0, unknown.epistemic.max(), 13).numpy()
for (label, entropy), style in zip(groups.items(), ("-", ":", "--"), strict=True):
    share = torch.full_like(entropy, 1 / max(len(entropy), 1))
    axes["h"].hist(entropy, bins, weights=share, histtype="step", lw=2, ls=style, label=label)
axes["h"].set(xlabel="epistemic entropy (nats)", ylabel="share of the digits")
axes["h"].set_title("What the networks disagree on")
axes["h"].legend()
for tile, index in zip("abcdef", unknown.epistemic.topk(6).indices.tolist(), strict=True):
    axes[tile].imshow(strange[index, 0], cmap="gray_r")
    first, second = unknown.probs[index].topk(2).indices.tolist()
    axes[tile].set_title(f"{first} or {second}?", fontsize=10)
    axes[tile].set(xticks=[], yticks=[])
    axes[tile].spines[:].set_visible(False)
plt.show()

# %% [markdown]
# Digits that are classified correctly have next to no epistemic entropy. The ones that it gets wrong
# have more, and so have the digits that it has never seen. It was told nothing about 8s and 9s, and no
# detector was trained.
#
# ## Keep it
#
# A posterior is one file. Loading takes the network's class, and the bits of its predictions are the
# same.

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits.sbmc"
    posterior.save(file)
    again = sbmc.load(file, Net())
    same = torch.equal(again.predict(test_inputs).probs, known.probs)
    print(f"{file.stat().st_size / 1024:.0f} KiB; the same predictions after loading: {same}")

# %% [markdown]
# ## Where to go on
#
# - To act on it, abstain below a threshold [with a guarantee](abstain_with_guarantee.md).
# - What `fit` did without a setting, and how to have it otherwise: [Without a knob](../automatic.md).
# - A large network, of which only the end is to be sampled: [BERT's last layer](bert_last_layer.md).
