# %% [markdown]
# # From the network to the full posterior: s from 0 to 1
#
# One number says how far from the trained network to look: see what it does to a decision boundary
# and to the doubt around it, from s = 0 to s = 1.
#
# `sbmc` puts a Gaussian prior around the weights of the trained network, with a variance of s times
# the one that you had in mind beforehand. At s = 0 nothing but the network is left. At s = 1 the
# network is only a place to start from, and the chains sample the full posterior.

# %%
import io

import matplotlib.pyplot as plt
import torch
from IPython.display import Image, display
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image as Picture
from sklearn.datasets import make_moons
from torch import nn

import sbmc
from sbmc.prediction import metrics


def draw(examples, seed):
    points, classes = make_moons(examples, noise=0.25, random_state=seed)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(classes)


train, test = draw(80, seed=0), draw(2000, seed=1)

# %% [markdown]
# ## One network
#
# It is trained to the end, as one does when nobody tells it to stop: it separates even points that
# are on the wrong side by chance.

# %% quick="epochs, scales, particles, sampling = 50, [0, 0.1, 1], 5, 80"
epochs, particles, sampling = 600, 40, 400
scales = [0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
scales += [0.5, 0.6, 0.7, 0.8, 0.9, 1]

# %%
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(epochs):
    optimiser.zero_grad()
    nn.functional.cross_entropy(net(train[0]), train[1]).backward()
    optimiser.step()
with torch.no_grad():
    outputs = net(test[0])
print(
    f"training accuracy {(net(train[0]).argmax(-1) == train[1]).double().mean():.1%}, "
    f"test accuracy {(outputs.argmax(-1) == test[1]).double().mean():.1%}, "
    f"test NLL {nn.functional.cross_entropy(outputs, test[1]):.3f}"
)

# %% [markdown]
# ## Twenty posteriors
#
# The same call for every s, and the same noise, so that what moves is s alone.

# %%
axis_x, axis_y = torch.linspace(-2, 3, 90), torch.linspace(-1.6, 2.1, 74)
grid = torch.cartesian_prod(axis_x, axis_y)
rows, maps = [], []
for s in scales:
    posterior = sbmc.fit(
        net,
        train,
        s=s,
        sampler=sbmc.HMC(epochs=sampling),
        particles=particles,
        seed=0,
        progress=False,
    )
    known, everywhere = posterior.predict(test[0]), posterior.predict(grid)
    rows.append(
        {
            "s": s,
            "accuracy": metrics.accuracy(known, test[1]),
            "NLL": metrics.nll(known, test[1]),
            "epistemic": float(known.epistemic.mean()),
        }
    )
    shape = len(axis_x), len(axis_y)
    maps.append((everywhere.probs[:, 1].reshape(shape).T, everywhere.epistemic.reshape(shape).T))
for row in rows[::4]:
    print("   ".join(f"{name} {value:.3f}" for name, value in row.items()))


# %% alt="Two rows of five maps for growing s. Above, the probability of a class: at s = 0 the boundary is sharp and circles single points, and it becomes smoother until it follows the two moons at s = 1. Below, the epistemic entropy: none at s = 0, then a band along the boundary that opens away from the data."
two_classes = LinearSegmentedColormap.from_list("classes", ["#d55e00", "white", "#0072b2"])
extent = [axis_x[0], axis_x[-1], axis_y[0], axis_y[-1]]
look = {"extent": extent, "origin": "lower", "aspect": "auto", "interpolation": "bilinear"}


def draw_maps(panels, number):
    """The probability and the epistemic entropy over the plane, with the training points."""
    panels[0].imshow(maps[number][0], cmap=two_classes, vmin=0, vmax=1, **look)
    panels[1].imshow(maps[number][1], cmap="Blues", vmin=0, vmax=0.6, **look)
    for panel in panels:
        for label, colour, marker in ((0, "C1", "o"), (1, "C0", "s")):
            points = train[0][train[1] == label]
            panel.scatter(*points.T, s=9, c=colour, marker=marker, edgecolors="black", lw=0.4)
        panel.set(xticks=[], yticks=[])
        panel.grid(visible=False)


shown = sorted({round(place * (len(scales) - 1)) for place in (0, 0.25, 0.5, 0.75, 1)})
figure, axes = plt.subplots(2, len(shown), figsize=(8.4, 3.2), squeeze=False)
for panels, number in zip(axes.T, shown, strict=True):
    draw_maps(panels, number)
    panels[0].set_title(f"s = {scales[number]:g}")
axes[0, 0].set_ylabel("probability")
axes[1, 0].set_ylabel("epistemic")
plt.show()

# %% [markdown]
# ## All of them
#
# The orange dot goes along the test NLL. The network's own is high, since it is sure where it is
# wrong. A little s already helps, and here the full posterior is best.

# %% alt="An animation over s. Left, the probability of one class over the plane with the training points: the boundary is sharp at s = 0 and becomes smooth as s grows. Middle, the epistemic entropy: nothing at s = 0, then a band of doubt along the boundary that opens away from the points. Right, the negative log likelihood on test data, which falls as s grows, with a dot at the s that is shown."
test_nll = [row["NLL"] for row in rows]


def frame(number):
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3), dpi=100, width_ratios=[1.15, 1.15, 1])
    draw_maps(axes[:2], number)
    axes[0].set_title("probability")
    axes[1].set_title("epistemic entropy")
    axes[2].plot(scales, test_nll)
    axes[2].plot(scales[number], test_nll[number], "o", color="C1", ms=9)
    axes[2].set(title="test NLL", xlabel="s", ylim=(0, None))
    figure.suptitle(f"s = {scales[number]:g}", fontsize=14)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    return Picture.open(buffer).convert("RGB")


frames = [frame(number) for number in range(len(scales))]
durations = [400] * len(frames)
durations[0] = durations[-1] = 1500  # milliseconds: time to look
film = io.BytesIO()
frames[0].save(
    film, "webp", save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=70
)
display(Image(film.getvalue(), format="webp"))

# %% [markdown]
# Two things to notice. The boundary around single points is the first to go: that shape of it was an
# accident of training, and the posterior has other ones. And there is a step at s = 1/2. Below it the
# prior is centred at the network, from there on at zero, so that s = 0.45 and s = 0.5 are different
# posteriors.
#
# No s is best for all networks. One that was trained for long, as this, wants a large one; one that
# was stopped in time on few data wants to stay as it is. `fit` chooses by itself if it is given rows
# that the network has not seen.
#
# ## Where to go on
#
# - How s, the sampler and the budget are chosen by `fit`: [Without a knob](../automatic.md).
# - The same choice by hand: [How to choose](../how_to_choose.md).
# - What the prior around the network is, exactly: [Anchors and priors](../anchors_and_priors.md).
