# %% [markdown]
# # Have the chains mixed? Diagnostics with ArviZ
#
# A posterior is only as good as its chains: look at R-hat, effective sample sizes and traces, of
# predictions first and of weights second.
#
# Many weights of a network can be exchanged without changing a single prediction, and chains that
# have not seen all of these copies are no worse for it. So the question is put to what the network
# predicts. ArviZ has the statistics and the plots; `sbmc` hands it the draws.

# %%
import arviz
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import nn

import sbmc
from sbmc.diagnostics import diagnose

points, classes = make_moons(100, noise=0.25, random_state=0)
data = torch.tensor(points, dtype=torch.float32), torch.tensor(classes)

# %% [markdown]
# ## Chains to look into
#
# The default of `fit` keeps one draw of many chains, which is what predictions need. To look inside
# chains, keep several draws of each. These are two islands of four chains, on the full posterior of a
# small network.

# %% quick="steps, draws = 40, 12"
steps, draws = 400, 50

# %%
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
model = sbmc.train_map(network, data, max_epochs=200, learning_rate=0.01, progress=False)


posterior = sbmc.fit(
    model,
    data,
    s=1,
    prior_variance=1.0,
    sampler=sbmc.HMC(steps=steps, draws=draws, thinning=max(1, steps // (2 * draws))),
    particles=4,
    islands=2,
    progress=False,
)
places = torch.tensor([[0.5, 0.25], [-0.5, 0.75], [1.5, -0.25], [0.5, 2.0]])
print(diagnose(posterior, inputs=places, data=data))

# %% [markdown]
# R-hat compares chains with each other: near 1 they say the same. Each cell has the worst and the
# median of its quantities. The predictions are well mixed and worth hundreds of independent draws,
# while the worst of the weights is not: hidden units can change places, and no prediction shows it.
#
# ## The same in ArviZ
#
# `to_arviz` gives every parameter by its name. Predictions go along in a few lines: the draws of an
# island are in the order in which they were made, all its chains at a time.

# %%
weights = posterior.to_arviz()
probability = posterior.samples(places).outputs().softmax(-1)[..., 1]
by_chain = probability.reshape(2, draws, 4, len(places)).transpose(1, 2).flatten(0, 1)
predicted = arviz.from_dict(
    posterior={"p(class 1)": by_chain.numpy()}, dims={"p(class 1)": ["place"]}
)
print(arviz.summary(predicted, kind="diagnostics").to_string())

# %% alt="Left, R-hat of all weights, of which many are above 1.05, and of the predictions, which are all close to 1. Right, autocorrelations against the lag: that of the weight with the largest R-hat falls slowly, that of the predictions is zero from the first lag on."
rhat = {
    "weights": np.concatenate([np.ravel(each) for each in arviz.rhat(weights).values()]),
    "predictions": np.ravel(arviz.rhat(predicted)["p(class 1)"]),
}
first_layer = weights.posterior["0.weight"]
unit, column = np.unravel_index(
    np.asarray(arviz.rhat(weights)["0.weight"]).argmax(), first_layer.shape[2:]
)
chains = {
    "the worst weight": np.asarray(first_layer[:, :, unit, column]),
    "a prediction": np.asarray(predicted.posterior["p(class 1)"][:, :, 0]),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9))
for row, values in enumerate(rhat.values()):
    height = row + np.linspace(-0.25, 0.25, len(values))
    left.plot(values, height, "os"[row], ms=5, alpha=0.8, mec="white")
left.set_yticks(range(len(rhat)), rhat)
left.axvline(1.01, color="C6", lw=1, ls=":")
left.set(title="Do the chains agree?", xlabel="R-hat (dotted: 1.01)", ylim=(-0.6, 1.6))
for (name, values), style in zip(chains.items(), ("o-", "s--"), strict=True):
    right.plot(arviz.autocorr(values).mean(0)[:9], style, ms=5, label=name)
right.axhline(0, color="C6", lw=1, ls=":")
right.set(title="How long does a chain remember?", xlabel="lag, in draws", ylabel="autocorrelation")
right.legend()
plt.show()

# %% [markdown]
# ArviZ's own plots take both objects as they are: `arviz.plot_trace(predicted)`,
# `arviz.plot_rank(weights)`, `arviz.plot_autocorr(predicted)`.
#
# ## Where to go on
#
# - Which diagnostic says what, and what is left to look at with one draw of each chain:
#   [Diagnostics](../diagnostics.md).
# - `posterior.health` is the verdict that every `fit` ends with, and `fit` warns if it is not ok.
# - Which sampler, and how long: [How to choose](../how_to_choose.md).
