# %% [markdown]
# # Islands on a Ray cluster, one of them killed
#
# Sampling is divided into islands that never talk to each other: send them to the workers of a
# cluster, and let one die on the way.
#
# What can be lost on a cluster will be. An island's noise depends on the seed and on its own number
# alone, so that a worker that takes over from a dead one makes the same island again, to the last
# bit. Here the cluster is this computer with two workers; a real one is another address.

# %%
import contextlib
import tempfile
import threading
from pathlib import Path

import matplotlib.pyplot as plt
import psutil
import torch
from torch import nn

import sbmc
from sbmc.datasets import load_dataset
from sbmc.prediction import metrics

data = load_dataset("digits")
torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 8)
)
model = sbmc.train_map(network, data.train, data.validation, learning_rate=0.005, progress=False)

# %% quick="islands, epochs = 3, 60"
islands, epochs = 8, 200

# %% [markdown]
# ## The run
#
# `executor` says where islands are computed. On a cluster that is already running it would be
# `sbmc.Ray(address="auto")`, and nothing else changes. With a `checkpoint`, an island goes on from its
# last snapshot; without, from its beginning. A thread plays the accident: it waits until islands are
# under way, and kills a worker.


# %%
def kill_a_worker(folder, over):
    while not over.wait(0.1):
        if not any(Path(folder).rglob("*.safetensors")):
            continue  # no island has saved a snapshot yet
        workers = {}
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "ray::_task" in " ".join(process.cmdline()):  # it computes islands
                    workers[process] = process.cpu_times().user
        if workers:
            max(workers, key=workers.get).kill()
            print("killed the worker that had done most")
            return


options = {
    "s": 0.1,
    "prior_variance": 1.0,
    "sampler": sbmc.HMC(epochs=epochs),
    "particles": 5,
    "islands": islands,
    "seed": 0,
    "progress": False,
}
with tempfile.TemporaryDirectory() as folder:
    over = threading.Event()
    accident = threading.Thread(target=kill_a_worker, args=[folder, over])
    accident.start()
    cluster = sbmc.Compute(executor=sbmc.Ray(workers=2), checkpoint=folder)
    posterior = sbmc.fit(model, data.train_and_validation, compute=cluster, **options)
    over.set()
    accident.join()
print(posterior)
for island in posterior.islands:
    print(
        f"island {island.index}: {island.outcome}, attempt {island.attempts}, "
        f"acceptance {island.acceptance:.2f}"
    )

# %% [markdown]
# What was lost was made again, in a second attempt on a new worker. Is it the same as if nothing had
# happened? Here are all islands once more, in this process, one after another.

# %%
here = sbmc.Compute(executor=sbmc.InProcess(fold=1))
undisturbed = sbmc.fit(model, data.train_and_validation, compute=here, **options)
print("the same bits:", torch.equal(posterior.positions, undisturbed.positions))

# %% [markdown]
# ## What islands are worth together
#
# Each island is a small posterior of its own. Their mixture never has a larger NLL than they have on
# average, and how far they are apart says how much five particles leave to chance.

# %% alt="Test NLL: a dot for each island alone, scattered over a range, some of them above the network; and a line for all islands together, below the network and below the mean of the islands."
test_inputs, test_labels = data.test
# (islands · particles, digits, classes)
probs = posterior.samples(test_inputs).outputs().softmax(-1)
alone = [metrics.nll(each.mean(0), test_labels) for each in probs.chunk(islands)]
together = metrics.nll(posterior.predict(test_inputs), test_labels)
network_nll = metrics.nll(sbmc.fit(model, data.train, s=0).predict(test_inputs), test_labels)
print(
    f"test NLL: the network {network_nll:.3f}; islands alone {min(alone):.3f} to {max(alone):.3f}, "
    f"on average {sum(alone) / islands:.3f}; all together {together:.3f}"
)

figure, axes = plt.subplots(figsize=(6.4, 2.8))
axes.axhline(network_nll, color="C6", ls="--", lw=1.2, label="the network")
axes.plot(range(islands), alone, "o", color="C1", ms=7, label="an island alone")
axes.axhline(together, lw=2, label="all islands together")
axes.set(xlabel="island", ylabel="test NLL", xticks=range(islands))
axes.legend(loc="center right")
plt.show()

# %% [markdown]
# ## Where to go on
#
# - Clusters, Slurm, what islands cost and what happens when something fails:
#   [Islands on many machines](../scaling.md).
# - Runs that are stopped and go on, and islands that were made apart: [Checkpoints](../checkpoints.md).
