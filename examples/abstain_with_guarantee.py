# %% [markdown]
# # Abstain, with a guarantee
#
# A reader of handwritten digits may say "I do not know", and of what it does answer at most two in a
# hundred may be wrong: how often can it answer?
#
# An error rate that was promised is easier to live with than an accuracy that was measured. The
# promise here is: *among the digits that are answered, at most a share α is wrong, with probability
# 1 − δ*. It holds whatever the network is, as long as the digits to come are like those that the
# threshold was set on.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import sbmc
from sbmc.confidence import calibration_size, calibration_splits, coverage_grid, risk_coverage

source = load_digits()
images = torch.tensor(source.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(source.target)
shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
parts = shuffled.split([200, 300, 700, len(labels) - 1200])
train, held_out, calibration, test = ((images[rows], labels[rows]) for rows in parts)

# %% [markdown]
# Two hundred digits are few, so the network will make mistakes. What matters is that it knows which.

# %% quick="repeats = 10"
epochs, repeats = 200, 200

# %%
torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
)
model = sbmc.train_map(network, train, max_epochs=epochs, learning_rate=0.003, progress=False)
posterior = sbmc.fit(model, train, s=0.1, particles=20, seed=0, progress=False)
prediction = posterior.predict(test[0])
wrong = (prediction.labels != test[1]).numpy()
print(f"answering everything: {wrong.mean():.1%} of {len(wrong)} test digits are wrong")

# %% [markdown]
# ## A score, and a threshold that was earned
#
# `posterior.confidence` learns, from digits that the network has not seen, a score for "this answer
# is wrong". `calibrate` then tests thresholds on further digits, from the most cautious one on, until
# the first fails. That needs digits that were used for nothing else, and enough of them.

# %%
alpha, delta = 0.02, 0.05
print(f"α = {alpha} and δ = {delta} need {calibration_size(alpha, delta)} answers at least")
confidence = posterior.confidence(held_out)
print(confidence.calibrate(calibration, alpha=alpha, delta=delta))

decision = confidence.decide(test[0])
answered = ~decision.abstained.numpy()
print(f"test digits: {answered.mean():.0%} answered, {wrong[answered].mean():.1%} of these wrong")

# %% alt="Left, the error among answered digits rises as more of them are answered. The threshold with the guarantee is marked where the curve is still below the dashed line at two percent. Right, six digits that it would not answer, with the two classes that it wavers between."
figure, axes = plt.subplot_mosaic("hhhabc;hhhdef", figsize=(8.4, 3.3))
curve = risk_coverage(decision.score.numpy(), wrong)
axes["h"].plot(curve.coverage, curve.risk, label="error on the test digits")
axes["h"].axhline(alpha, color="C6", lw=1.2, ls="--", label=f"what is allowed, {alpha:.0%}")
axes["h"].plot(
    answered.mean(), wrong[answered].mean(), "o", color="C1", ms=8, label="guaranteed threshold"
)
axes["h"].set(xlabel="share that is answered", ylabel="share of answers that are wrong")
axes["h"].xaxis.set_major_formatter("{x:.0%}")
axes["h"].yaxis.set_major_formatter("{x:.0%}")
axes["h"].legend(loc="upper left")
for tile, index in zip("abcdef", decision.score.topk(6).indices.tolist(), strict=True):
    axes[tile].imshow(test[0][index, 0], cmap="gray_r")
    first, second = prediction.probs[index].topk(2).indices.tolist()
    axes[tile].set_title(f"{first} or {second}?", fontsize=10)
    axes[tile].set(xticks=[], yticks=[])
    axes[tile].spines[:].set_visible(False)
plt.show()

# %% [markdown]
# The curve is below the line for more digits than are answered: the guarantee has to be sure of it on
# the calibration digits alone, and stays on the safe side.
#
# ## Is the promise kept?
#
# "With probability 1 − δ" speaks of calibration sets. So draw many of them, from all digits that were
# not used for training or for the score, and see how often the error over all of these is above α.

# %% alt="A histogram of the error among answers over many calibration sets. Nearly all of it is to the left of the dashed line at two percent."
pool = torch.cat([calibration[0], test[0]]), torch.cat([calibration[1], test[1]])
wrong_in_pool = (posterior.predict(pool[0]).labels != pool[1]).numpy()
levels = {"alpha": alpha, "delta": delta}
grid = coverage_grid(confidence.score(held_out[0]).numpy(), len(calibration[1]), **levels)
study = calibration_splits(
    confidence.score(pool[0]).numpy(),
    wrong_in_pool,
    grid,
    splits=repeats,
    examples=len(calibration[1]),
    **levels,
)
print(
    f"{repeats} calibration sets: the error is above {alpha:.0%} in {study.violations:.1%} of them "
    f"(at most {delta:.0%} were promised)"
)
print(f"on average {study.coverage.mean():.0%} are answered")

figure, axes = plt.subplots(figsize=(7, 2.6))
axes.hist(study.error, bins=12)
axes.axvline(alpha, color="C6", ls="--", lw=1.2, label=f"α = {alpha:.0%}")
axes.set(xlabel="share of answers that are wrong", ylabel="calibration sets")
axes.xaxis.set_major_locator(plt.MultipleLocator(0.005))
axes.xaxis.set_major_formatter("{x:.1%}")
axes.legend()
plt.show()

# %% [markdown]
# ## Where to go on
#
# - What the score looks at, and inputs from outside the domain, which can be calibrated for in the
#   proportion in which they will come: [Confidence](../confidence.md).
# - Numbers instead of classes, where you say how near is near enough: [the same
#   page](../confidence.md#numbers).
# - Sets of classes instead of abstention: [conformal sets](conformal_sets.md).
