# %% [markdown]
# # Conformal sets and intervals with MAPIE
#
# Instead of one class, answer with all that cannot be ruled out, so that the right one is among them
# as often as you ask for, whatever the model is.
#
# Conformal prediction gives sets and intervals a coverage that is guaranteed on average. The
# guarantee needs nothing of the model. How small they are, and whether they are right for *every*
# kind of row, is up to the model. MAPIE takes an `SBMCClassifier` or an `SBMCRegressor` like any other
# estimator of scikit-learn.

# %%
import matplotlib.pyplot as plt
import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sbmc

images, labels = load_digits(return_X_y=True)
images = images / 16

# %% quick="rows, measurements, budget = 60, 150, 20"
rows, measurements, budget = 150, 300, 200

# %% [markdown]
# ## Classes
#
# The model learns from few digits, so that there is something to be unsure of. `conformalize` looks
# at others, and finds how improbable a class may be before it can be left out.

# %%
X_train, X_rest, y_train, y_rest = train_test_split(
    images, labels, train_size=rows, stratify=labels, random_state=0
)
X_calibration, X_test, y_calibration, y_test = train_test_split(
    X_rest, y_rest, train_size=600, random_state=0
)
classifier = sbmc.SBMCClassifier(random_state=0).fit(X_train, y_train)
conformal = SplitConformalClassifier(classifier, confidence_level=0.95, prefit=True)
conformal.conformalize(X_calibration, y_calibration)
sets = conformal.predict_set(X_test)[1][:, :, 0]  # (digits, classes) booleans
sizes = sets.sum(1)
covered = sets[np.arange(len(y_test)), y_test]
print(f"the most probable class is right for {classifier.score(X_test, y_test):.1%} of the digits")
print(f"the right class is in {covered.mean():.1%} of the sets (asked for: 95 %)")
for size in np.unique(sizes):
    print(
        f"  sets of {size}: {np.mean(sizes == size):.1%}, right {covered[sizes == size].mean():.1%}"
    )

# %% [markdown]
# The coverage is promised on average over calibration sets, so that it may be a little off for one of
# them. These are the largest sets:

# %% alt="Eight digits whose sets are the largest, each with the classes of its set as the title, such as 1, 7 and 8. Each looks as if it could be any of them."
epistemic = classifier.predictive(X_test).epistemic.numpy()
largest = np.lexsort((-epistemic, -sizes))[:8]
figure, axes = plt.subplots(1, 8, figsize=(8.4, 1.5))
for tile, index in zip(axes, largest, strict=True):
    tile.imshow(X_test[index].reshape(8, 8), cmap="gray_r")
    tile.set_title("{" + ", ".join(map(str, np.flatnonzero(sets[index]))) + "}", fontsize=10)
    tile.set(xticks=[], yticks=[])
    tile.spines[:].set_visible(False)
plt.show()

# %% [markdown]
# ## Numbers
#
# An instrument is far noisier on the right of its range than on the left. Split-conformal intervals
# are as wide everywhere. *Conformalised quantile regression* moves the posterior's own intervals by
# one number, so that they stay narrow where the posterior has them narrow. `at_quantile(q)` is the
# same fitted model with another `predict`.

# %%
rng = np.random.default_rng(0)


def measure(examples):
    x = rng.uniform(-1, 1, (examples, 1))
    return x, np.sin(3 * x[:, 0]) + (0.05 + 0.3 * (x[:, 0] > 0)) * rng.standard_normal(examples)


regressor = sbmc.SBMCRegressor(random_state=0, budget=budget).fit(*measure(measurements))
new_x, new_y = measure(3000)
calibration = measure(500)
intervals = {}
one_width = SplitConformalRegressor(regressor, confidence_level=0.9, prefit=True)
intervals["split conformal"] = one_width.conformalize(*calibration).predict_interval(new_x)[1]
quantiles = [regressor.at_quantile(q) for q in (0.05, 0.95, 0.5)]
by_row = ConformalizedQuantileRegressor(quantiles, confidence_level=0.9, prefit=True)
intervals["conformalised quantiles"] = by_row.conformalize(*calibration).predict_interval(new_x)[1]
for name, ends in intervals.items():
    inside = (ends[:, 0, 0] <= new_y) & (new_y <= ends[:, 1, 0])
    noisy = new_x[:, 0] > 0
    print(
        f"{name:24s} cover {inside.mean():.1%}; on the left {inside[~noisy].mean():.1%}, on the "
        f"right {inside[noisy].mean():.1%}; mean width {np.ptp(ends, axis=1).mean():.2f}"
    )

# %% alt="Two panels with measurements and 90 % intervals over x. Left, split conformal: a band of one width, far too wide on the quiet left half and too narrow on the noisy right half. Right, conformalised quantiles: a narrow band on the left and a wide one on the right, which follow the measurements."
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3), sharex=True, sharey=True)
order = np.argsort(new_x[:, 0])
for panel, (name, ends) in zip(axes, intervals.items(), strict=True):
    panel.plot(new_x[::4, 0], new_y[::4], ".", color="C1", ms=2, alpha=0.6)
    x = new_x[order, 0]
    panel.fill_between(
        x, ends[order, 0, 0], ends[order, 1, 0], alpha=0.3, lw=0, label="90 % interval"
    )
    panel.set(title=name, xlabel="x", xticks=[-1, -0.5, 0, 0.5, 1])
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# Both keep what was promised: nine in ten, on average over all rows. Only one of them is right on
# both sides. A guarantee on average does not replace a model that knows where it is unsure.
#
# ## Where to go on
#
# - More on MAPIE, in pipelines too: [Tables and scikit-learn](../sklearn.md#guarantees-by-conformal-prediction).
# - A guarantee on the answers that are given, and no answer otherwise:
#   [abstain](abstain_with_guarantee.md).
