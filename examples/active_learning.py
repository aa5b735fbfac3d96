# %% [markdown]
# # Labels where they teach most
#
# Labels are expensive and inputs are not. Let the posterior say which inputs to label next, update it with the
# answers, and compare that with labels for inputs that are drawn by chance.
#
# `posterior.rank` orders a pool by what a label would teach: the mutual information of label and parameters. The
# best rows may all be alike, so `batch=True` chooses them together. `posterior.update` takes the new labels without
# a new fit.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import sbmc

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)

# %% quick="seeds, rounds, epochs, particles = 1, 2, 60, 6"
seeds, rounds, epochs, particles = 3, 6, 400, 20

# %% [markdown]
# ## Rounds of labels
#
# We begin with 40 labels and add 20 in each round. There are two pools. In the first, all ten digits are as frequent as
# usual. In the second, nine in ten of the digits from 5 to 9 are missing, while the test has all of them: rare things
# are what a choice by chance finds last.

# %%
first, each = 40, 20
choices = {"by chance": ("random", False), "epistemic": ("epistemic", False)}
choices["epistemic, as a batch"] = "epistemic", True


def accuracies(choice, kept, seed):
    """Accuracy on 600 digits after each round."""
    by, batch = choices[choice]
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=rng)
    test, rest = order[:600], order[600:]
    frequent = (labels[rest] < 5) | (torch.rand(len(rest), generator=rng) < kept)
    known, pool = rest[frequent][:first], rest[frequent][first:]
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    data = images[known], labels[known]
    network = sbmc.train_map(network, data, max_epochs=100, progress=False)
    sampler = sbmc.HMC(epochs=epochs)
    options = {"sampler": sampler, "particles": particles, "seed": seed, "progress": False}
    posterior = sbmc.fit(network, data, s=1.0, **options)
    found = []
    for number in range(rounds + 1):
        right = posterior.predict(images[test]).labels == labels[test]
        found.append(right.double().mean().item())
        if number < rounds:
            chosen = posterior.rank(images[pool], by, each, batch=batch, seed=number).indices
            new = pool[chosen]
            pool = pool[~torch.isin(pool, new)]
            posterior = posterior.update((images[new], labels[new]), progress=False)
    return found


results = {}
for pool_name, kept in (("all digits alike", 1.0), ("5 to 9 are rare", 0.1)):
    for choice in choices:
        runs = [accuracies(choice, kept, seed) for seed in range(seeds)]
        results[pool_name, choice] = torch.tensor(runs)
        mean = results[pool_name, choice].mean(0)
        print(f"{pool_name}: {choice:22s}", " ".join(f"{value:.1%}" for value in mean))

# %% [markdown]
# ## What it is worth

# %% alt="Two panels with accuracy over the number of labels, a line for each way to choose. Left, all digits alike: the three lines are close, and those of the epistemic choices end a few points above that of chance. Right, 5 to 9 are rare: chance stays near one half, and both epistemic choices climb far above it."
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3), sharey=True)
counts = [first + each * number for number in range(rounds + 1)]
for panel, pool_name in zip(axes, ("all digits alike", "5 to 9 are rare"), strict=True):
    for choice in choices:
        runs = results[pool_name, choice]
        panel.plot(counts, runs.mean(0), marker="o", ms=3, label=choice)
        panel.fill_between(counts, runs.min(0).values, runs.max(0).values, alpha=0.15, lw=0)
    panel.set(title=pool_name, xlabel="labels")
axes[0].set_ylabel("accuracy")
axes[1].legend(loc="upper left")
plt.show()

# %% [markdown]
# The bands are the smallest and the largest of the runs. Where all digits are alike, a choice by chance is hard to beat, and in
# the first round the single best rows are worse than chance: they are alike. Later both epistemic choices are a few points
# better, the batch sooner. Where half of the digits are rare, the posterior asks for them, and chance does not find them.
#
# So ranking pays where a pool has much of what is known and little of what is not. Where a pool is as the test, try it
# against `by="random"` before you rely on it.
#
# ## Where to go on
#
# - How updates, ranking and drift work: [when the world moves on](../living.md).
# - Answers only where they are sure: [abstain](abstain_with_guarantee.md).
