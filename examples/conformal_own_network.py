# %% [markdown]
# # Conformal intervals around your own network
#
# You have a network of your own and its posterior: make MAPIE's intervals as wide as the posterior
# is unsure, with a coverage that holds whatever the network is.
#
# `sbmc.as_estimator(posterior)` is the posterior as a fitted estimator of scikit-learn. Tools that take
# fitted models take it: MAPIE with `prefit=True`, `CalibratedClassifierCV`,
# `permutation_importance`, pipelines. Here are the patients of scikit-learn's diabetes data: ten
# measurements each, and how far the disease has progressed a year later.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import SplitConformalRegressor
from sklearn.datasets import load_diabetes, load_digits
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from torch import nn

import sbmc

patients, progression = load_diabetes(return_X_y=True)
patients = patients / patients.std(0)
columns = load_diabetes().feature_names
LEVEL = 0.9

# %% quick="seeds, epochs, budget, pictures = 2, 20, 20, 100"
seeds, epochs, budget, pictures = 20, 100, 150, 150

# %% [markdown]
# ## A network of one's own, as an estimator
#
# The network gives a mean and a noise for each patient. It is trained and sampled as usual, on
# standardised targets. The last line makes an estimator of the result.


# %%
def fit_network(X, y, seed):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
    data = torch.tensor(X).float(), torch.tensor(y).float()
    options = {"likelihood": "gaussian-network", "progress": False, "seed": seed}
    trained = sbmc.train_map(network, data, max_epochs=epochs, learning_rate=0.003, **options)
    posterior = sbmc.fit(trained, data, budget=budget, **options)
    return sbmc.as_estimator(posterior)


targets = (progression - progression.mean()) / progression.std()
X_train, X_rest, y_train, y_rest = train_test_split(
    patients, targets, test_size=0.5, random_state=0
)
regressor = fit_network(X_train, y_train, seed=0)
print(f"R² on other patients: {regressor.score(X_rest, y_rest):.2f}")
importance = permutation_importance(regressor, X_rest, y_rest, n_repeats=20, random_state=0)
order = np.argsort(-importance.importances_mean)
print(
    "what R² loses without:",
    {columns[i]: round(float(importance.importances_mean[i]), 3) for i in order[:3]},
)

# %% [markdown]
# ## Three kinds of intervals
#
# *The posterior's own* are where the network believes that the next patient will be. *Split-conformal*
# intervals have one width, by the errors on patients that the network has not seen. MAPIE's
# `ResidualNormalisedScore` divides these errors by a standard deviation first: `as_std()` is the
# same estimator whose `predict` gives the posterior's. Intervals are then that standard deviation,
# times one number.


# %%
def intervals(regressor, calibration, X):
    scaled = ResidualNormalisedScore(regressor.as_std(), prefit=True)
    found = {"posterior": regressor.predict_interval(X, level=LEVEL)}
    for name, score in {"split conformal": "absolute", "scaled by the posterior": scaled}.items():
        conformal = SplitConformalRegressor(
            regressor, confidence_level=LEVEL, conformity_score=score, prefit=True
        )
        found[name] = conformal.conformalize(*calibration).predict_interval(X)[1][..., 0]
    return found


# %% [markdown]
# One split of 442 patients says little. Over many of them, with another network each time:

# %%
rows = []
for seed in range(100, 100 + seeds):
    X_train, X_rest, y_train, y_rest = train_test_split(
        patients, targets, test_size=0.5, random_state=seed
    )
    calibration, (X_test, y_test) = (X_rest[:110], y_rest[:110]), (X_rest[110:], y_rest[110:])
    regressor = fit_network(X_train, y_train, seed)
    std = regressor.as_std().predict(X_test)
    unsure = std > np.median(std)
    for name, ends in intervals(regressor, calibration, X_test).items():
        inside = (ends[:, 0] <= y_test) & (y_test <= ends[:, 1])
        widths = np.ptp(ends, axis=1)
        rows.append(
            (name, inside.mean(), inside[~unsure].mean(), inside[unsure].mean(), widths.mean())
        )
kinds = list(dict.fromkeys(name for name, *_ in rows))
print(f"{LEVEL:.0%} intervals of {seeds} networks, mean ± standard error")
print(f"{'':25s} all patients   the surer half  the less sure   mean width")
for kind in kinds:
    values = np.array([row[1:] for row in rows if row[0] == kind])
    mean, error = values.mean(0), values.std(0, ddof=1) / np.sqrt(seeds)
    shares = "   ".join(
        f"{100 * m:5.1f} ± {100 * e:3.1f} %" for m, e in zip(mean[:3], error, strict=False)
    )
    print(f"{kind:25s}{shares}   {mean[3]:.2f} ± {error[3]:.2f}")

# %% alt="Two panels of patients of one split, ordered by the posterior's standard deviation, with their progression as points. Left, split conformal: a band of one width around the means. Right, scaled by the posterior: a band that is narrower for patients on the left, whom the posterior is sure about, and wider on the right, where the points spread further."
found = intervals(regressor, calibration, X_test)
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3), sharey=True)
by_std, mean = np.argsort(std), regressor.predict(X_test)
for panel, kind in zip(axes, kinds[1:], strict=True):
    ends = (found[kind] - mean[:, None])[by_std]
    panel.fill_between(np.arange(len(ends)), *ends.T, alpha=0.3, lw=0, label="90 % interval")
    panel.plot((y_test - mean)[by_std], ".", color="C1", ms=4, label="patients")
    panel.set(title=kind, xlabel="patients, the surest first")
axes[0].set(ylabel="progression − mean", ylim=(-2.4, 2.4))
axes[0].legend(loc="upper left", ncols=2)
plt.show()

# %% [markdown]
# Both conformal kinds keep what was promised on average over all patients. Intervals of one width cover
# too many of those whom the posterior is sure about, and too few of the others; scaled by the
# posterior, they cover both halves alike, at the same mean width. The posterior's own intervals are
# right in both halves as well, if a little wide: they are a matter of belief, and nothing corrects
# them. The length of the chains (`budget`) was chosen on other splits of the same patients: with
# shorter chains, scaling covered too few of the patients whom the posterior is sure about.
#
# ## Classes: a CNN, and tables of its pixels
#
# MAPIE hands over tables; a CNN wants pictures. The estimator gives rows the shape that its network
# takes. `classes` names the outputs.

# %%
table, digits = load_digits(return_X_y=True)
table = (table / 16).astype(np.float32)
names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
X_train, X_rest, y_train, y_rest = train_test_split(
    table, digits, train_size=pictures, stratify=digits, random_state=0
)
torch.manual_seed(0)
cnn = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
data = torch.tensor(X_train).view(-1, 1, 8, 8), torch.tensor(y_train)
cnn = sbmc.train_map(cnn, data, max_epochs=epochs, learning_rate=0.003, progress=False)
posterior = sbmc.fit(cnn, data, s=0.1, budget=budget, seed=0, progress=False)
classifier = sbmc.as_estimator(posterior, classes=names)
print(f"{classifier.score(X_rest, names[y_rest]):.1%} of {len(X_rest)} digits are right")

coverage, size = [], []
numbers = np.searchsorted(classifier.classes_, names[y_rest])  # labels are sorted
for seed in range(seeds):
    shuffled = np.random.default_rng(seed).permutation(len(X_rest))
    some, others = shuffled[:600], shuffled[600:]
    conformal = SplitConformalClassifier(classifier, confidence_level=0.95, prefit=True)
    conformal.conformalize(X_rest[some], names[y_rest[some]])
    sets = conformal.predict_set(X_rest[others])[1][..., 0]
    coverage.append(sets[np.arange(len(others)), numbers[others]].mean())
    size.append(sets.sum(1).mean())
error = np.std(coverage, ddof=1) / np.sqrt(seeds)
print(
    f"95 % sets of {seeds} calibrations: the label is in {np.mean(coverage):.1%} ± {error:.1%}, "
    f"with {np.mean(size):.2f} classes in a set"
)

# %% [markdown]
# ## Where to go on
#
# - More on estimators of posteriors, and BoTorch: [Adapters](../adapters.md).
# - Tables without a network of your own, conformalised quantiles: [Conformal sets](conformal_sets.md).
