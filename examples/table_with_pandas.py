# %% [markdown]
# # A table of patients with pandas
#
# From a DataFrame to probabilities that say how far they can be trusted, in three lines of
# scikit-learn.
#
# The table has thirty measurements of cell nuclei from biopsies, and the question is whether a
# tumour is malignant. Some rows are clear, some are not. A good model says which: for a clinic, a
# wrong answer that was marked as doubtful is worth far more than one that was not.

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import sbmc

bunch = load_breast_cancer(as_frame=True)  # comes with scikit-learn
table = bunch.data
diagnosis = bunch.target.map({0: "malignant", 1: "benign"})
print(table.iloc[:4, :5].to_string())

# %% [markdown]
# ## Fit
#
# `SBMCClassifier` standardises the columns, trains a small network, samples networks around it, and
# sets rows aside that decide how these are mixed. Labels may be words. Columns are known by their
# names, and rows whose columns have other names are refused.

# %% quick="rows = 150"
rows = 300  # as many to learn from; the others are for testing

# %%
X_train, X_test, y_train, y_test = train_test_split(
    table, diagnosis, train_size=rows, stratify=diagnosis, random_state=0
)
model = sbmc.SBMCClassifier(random_state=0).fit(X_train, y_train)
print(model.posterior_.mixture)

# %% [markdown]
# ## Which patients need a second look
#
# `predictive` has everything that can be asked of the predictions. Each sampled network has a
# probability of its own, so that a probability comes with an interval: narrow where the networks
# agree, wide where the table has too few rows like this one.

# %%
prediction = model.predictive(X_test)
column = list(model.classes_).index("malignant")
truth = (y_test == "malignant").to_numpy()
report = pd.DataFrame(
    {
        "diagnosis": y_test,
        "p(malignant)": prediction.probs[:, column],
        "lowest": prediction.interval(0.9, kind="credible")[0][:, column],
        "highest": prediction.interval(0.9, kind="credible")[1][:, column],
        "epistemic": prediction.epistemic,
    }
)
report["wrong"] = (report["p(malignant)"] > 0.5) != truth
ranked = report.sort_values("epistemic", ascending=False)
print(ranked.head(6).round(2).to_string())

looked_at = ranked.head(len(ranked) // 5)
print(
    f"\n{report.wrong.sum()} of {len(report)} diagnoses are wrong; {looked_at.wrong.sum()} of them "
    f"are in the fifth of the rows with the most epistemic entropy"
)

# %% alt="The probability of a malignant tumour for every test patient, in rising order, with 90 % intervals. The intervals are narrow near 0 and 1 and wide in between, and nearly all wrong diagnoses, marked by crosses, have wide ones."
figure, axes = plt.subplots(figsize=(8, 3.4))
ordered = report.sort_values("p(malignant)").reset_index(drop=True)
axes.vlines(ordered.index, ordered.lowest, ordered.highest, color="C0", alpha=0.35, lw=1.5)
axes.plot(ordered["p(malignant)"], ".", color="C0", ms=4, label="mean, with its 90 % interval")
wrong = ordered[ordered.wrong]
axes.plot(wrong["p(malignant)"], "x", color="C1", ms=8, mew=2, label="the diagnosis is wrong")
axes.axhline(0.5, color="C6", lw=1, ls=":")
axes.set(xlabel="test patients, in order", ylabel="probability of malignant")
axes.legend(loc="upper left")
plt.show()

# %% [markdown]
# The crosses are the point of the picture: wrong diagnoses have wide intervals, so that a second look
# at the widest catches most of them. Where the interval is narrow, the answer can stand.
#
# ## Where to go on
#
# - Pipelines, searches, weights of rows, several targets: [Tables and scikit-learn](../sklearn.md).
# - How it fares beside gradient boosting on twenty tables: [Tables, measured](../tables.md).
# - A guarantee on what is answered: [abstain](abstain_with_guarantee.md), or
#   [sets of classes](conformal_sets.md) that contain the right one as often as you ask for.
