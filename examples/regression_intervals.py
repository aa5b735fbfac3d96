# %% [markdown]
# # Regression with intervals that widen where there are no data
#
# A curve is measured at the ends of a range and not in the middle: how far can predictions be
# trusted there?
#
# Two kinds of doubt add up. Measurements are noisy, and more of them would not change that. And
# where nothing was measured many curves fit, of which one network draws a single one. `sbmc` samples
# curves, so that the second kind shows.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import sbmc
from sbmc.prediction import metrics

torch.manual_seed(0)


def truth(x):
    return torch.sin(4 * x) + 0.5 * x


def noise(x):
    return 0.05 + 0.2 * (x > 0)  # the instrument is worse on the right


def measure(x):
    return truth(x) + noise(x) * torch.randn(x.shape)


x = torch.cat([-1 + 0.7 * torch.rand(80, 1), 0.3 + 0.7 * torch.rand(80, 1)])
y = measure(x)

# %% [markdown]
# ## The network gives a mean and a noise
#
# The network has two outputs: a mean, and the logarithm of the noise's variance. `likelihood` says
# so to the training and to the sampling. With time for long chains, `fit` trains further networks
# and samples the full posterior from all of them.

# %% quick="epochs, budget = 50, 20"
epochs, budget = 500, 200  # of training; of sampling, in trainings like that one

# %%
network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
options = {"likelihood": "gaussian-network", "progress": False}
model = sbmc.train_map(network, (x, y), max_epochs=epochs, learning_rate=0.01, **options)
posterior = sbmc.fit(model, (x, y), budget=budget, seed=0, **options)
print(posterior)
print(posterior.settings["budget"])

# %% [markdown]
# ## Two bands
#
# `prediction.interval(0.9)` is where the next measurement will be. With `kind="credible"` it is where
# the curve itself is: particles alone, without noise. `prediction.plot()` draws both.

# %% alt="A curve with two bands over the input. Where there are points, on the left and on the right, the dark band of the mean is thin, and the pale band of measurements is narrow on the left and wide on the right, where the noise is larger. In the gap between them the dark band opens to several times its width."
grid = torch.linspace(-1.15, 1.15, 231).view(-1, 1)
prediction = posterior.predict(grid)
figure, axes = plt.subplots(figsize=(8, 3.8))
prediction.plot(ax=axes)
axes.plot(x, y, ".", color="C1", ms=4, label="measurements")
axes.plot(grid, truth(grid), color="C6", lw=1.2, ls="--", label="truth")
axes.axvspan(-0.3, 0.3, color="C6", alpha=0.06, lw=0)
axes.text(0, axes.get_ylim()[0] + 0.1, "nothing measured", ha="center")
axes.set(xlabel="x", ylabel="y")
axes.legend(loc="upper left", ncols=2)
plt.show()

# %% [markdown]
# The pale band follows the noise, which nobody told the network: it is narrow on the left and wide
# on the right. The dark one is thin wherever there are points, and opens in the gap. It opens beyond
# the ends as well, though on the left not far enough: a posterior knows the curves that its network
# can draw, and no others. Here are both parts as standard deviations.

# %%
places = torch.tensor([[-0.6], [0.0], [0.6]])
at = posterior.predict(places)
print("    x   true noise   aleatoric   epistemic")
for place, aleatoric, epistemic in zip(places, at.aleatoric, at.epistemic, strict=True):
    print(
        f"{place.item():5.1f} {noise(place).item():12.2f} {aleatoric.sqrt().item():11.2f} "
        f"{epistemic.sqrt().item():11.2f}"
    )

# %% [markdown]
# ## Are the intervals right?
#
# New measurements tell: nine in ten should be inside of a 90 % interval, and of two kinds of
# intervals that manage this, the narrower is better.

# %%
x_new = torch.cat([-1 + 0.7 * torch.rand(500, 1), 0.3 + 0.7 * torch.rand(500, 1)])
x_gap = 0.6 * torch.rand(500, 1) - 0.3
for name, inputs in {"where there were data": x_new, "in the gap": x_gap}.items():
    predicted, targets = posterior.predict(inputs), measure(inputs)
    covered = metrics.interval_coverage(predicted, targets, level=0.9)
    width = metrics.interval_width(predicted, level=0.9)
    with torch.no_grad():
        mean, log_variance = model(inputs).unbind(-1)
    inside = (mean - targets[:, 0]).abs() < 1.645 * (log_variance / 2).exp()
    print(
        f"{name:22s} 90 % intervals cover {covered:.0%}, mean width {width:.2f}; "
        f"those of the network alone cover {inside.double().mean():.0%}"
    )

# %% [markdown]
# ## Where to go on
#
# - All that a prediction can be asked (quantiles, draws, scores): [Predictions](../predictions.md).
# - Heavy tails, counts, noise that is known: [Likelihoods](../likelihoods.md).
# - A table instead of a curve: `sbmc.SBMCRegressor().fit(X, y)`, in
#   [Tables and scikit-learn](../sklearn.md).
# - Intervals that are right whatever the model is: [conformal prediction](conformal_sets.md).
