# %% [markdown]
# # Lightning and the Hugging Face Trainer: fit when training ends
#
# Your training is already in a Lightning `Trainer` or a Hugging Face `Trainer`: a callback of ten
# lines adds the posterior when it ends.
#
# `sbmc.fit` wants a trained module and its data, and both are at hand when training ends. The rest of
# the project stays as it is: the same command trains, and leaves a posterior beside the weights.

# %%
import logging
import tempfile
import warnings

import lightning
import matplotlib.pyplot as plt
import torch
import transformers
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sbmc
from sbmc.datasets import load_dataset
from sbmc.prediction import metrics

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
transformers.utils.logging.disable_progress_bar()
torch.manual_seed(0)
data = load_dataset("digits")  # comes with scikit-learn

# %% quick="epochs = 2"
epochs = 150

# %% [markdown]
# ## Lightning
#
# A `LightningModule` is an `nn.Module`, so `fit` takes it: its `forward` is what is sampled. The
# callback asks the trainer for the loaders that it used. Those for validation have not been trained
# on, and choose how far from the network to look.


# %%
class FitPosterior(lightning.Callback):
    """Sample the posterior of a module when its training has ended."""

    def __init__(self, **options):
        self.options = options

    def on_fit_end(self, trainer, module):
        training, validation = trainer.train_dataloader, trainer.val_dataloaders
        self.posterior = sbmc.fit(module, training, validation=validation, **self.options)


class Digits(lightning.LightningModule):
    """A network with its loss and its optimiser."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("loss", nn.functional.cross_entropy(self(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


# %%
callback = FitPosterior(seed=0, progress=False)
trainer = lightning.Trainer(
    max_epochs=epochs,
    callbacks=[callback],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
module = Digits()
loaders = [
    DataLoader(TensorDataset(*part), batch_size=64, shuffle=shuffled)
    for part, shuffled in ((data.train, True), (data.validation, False))
]
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*num_workers.*|.*logging interval.*")
    trainer.fit(module, *loaders)
print(callback.posterior)

# %% [markdown]
# ## The Hugging Face Trainer
#
# Its models return a dict with `loss` and `logits`, and its examples are dicts with `labels`. Both
# are understood as they are. The network is a plain one here; a `BertForSequenceClassification` is
# handled in the same way, with `parameters="last"` among the options.


# %%
class FitWhenTrained(transformers.TrainerCallback):
    """Sample the posterior of a model when its training has ended."""

    def __init__(self, validation, **options):
        self.validation, self.options = validation, options

    def on_train_end(self, args, state, control, model, train_dataloader, **_):
        self.posterior = sbmc.fit(
            model, train_dataloader.dataset, validation=self.validation, **self.options
        )


class Classifier(nn.Module):
    """A network with the outputs that the Trainer expects."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, pixels, labels=None):
        logits = self.net(pixels)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def as_dicts(part):
    return [{"pixels": x, "labels": y} for x, y in zip(*part, strict=True)]


# %%
model = Classifier()
when_trained = FitWhenTrained(as_dicts(data.validation), seed=0, progress=False)
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=epochs,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=as_dicts(data.train), callbacks=[when_trained]
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
print(when_trained.posterior)

# %% [markdown]
# ## Both, beside their networks
#
# The networks were trained for long, and are too sure of themselves. Here is what the posterior makes
# of that: the negative log likelihood of test digits, and the expected calibration error.

# %% alt="Bars for the two frameworks. In both, the posterior has a lower negative log likelihood and a lower calibration error on test digits than the network alone."
test_inputs, test_labels = data.test
with torch.no_grad():
    logits = {
        "Lightning": module.eval()(test_inputs),
        "Trainer": model.eval()(test_inputs)["logits"],
    }
predictions = {
    "Lightning": callback.posterior.predict(test_inputs),
    "Trainer": when_trained.posterior.predict({"pixels": test_inputs}),
}
results = {}
for name, prediction in predictions.items():
    for kind, probs in (("network", logits[name].softmax(-1)), ("posterior", prediction.probs)):
        scores = metrics.nll(probs, test_labels), metrics.ece(probs, test_labels)
        results[name, kind] = scores
        print(f"{name:10s} {kind:10s} NLL {scores[0]:.3f}   ECE {scores[1]:.3f}")

figure, axes = plt.subplots(1, 2, figsize=(7.6, 2.8))
for number, (panel, title) in enumerate(zip(axes, ("NLL", "calibration error"), strict=True)):
    for offset, (kind, hatch) in enumerate((("network", "//"), ("posterior", ""))):
        heights = [results[name, kind][number] for name in predictions]
        places = [row + 0.38 * offset - 0.19 for row in range(2)]
        panel.bar(places, heights, 0.34, label=kind, hatch=hatch, edgecolor="white")
    panel.set_xticks(range(2), predictions)
    panel.set_title(f"{title} on test digits (lower is better)", fontsize=10)
    panel.grid(visible=False, axis="x")
axes[0].legend(loc="upper right", ncols=2)
axes[0].margins(y=0.25)
plt.show()

# %% [markdown]
# The length of training was chosen after a look at these data: after 20 epochs there is little to gain,
# and the posterior was no better than the network. So this page shows how it is done, and is no evidence;
# [the gauntlet](../gauntlet.md) is.
#
# ## Where to go on
#
# - In which forms data may come, Hugging Face's data sets among them:
#   [Gotchas](../gotchas.md#forms-of-data).
# - A large model, of which only the end is sampled: [BERT](bert_last_layer.md); its adapters:
#   [LoRA](lora.md).
# - `posterior.save("run.sbmc")` in the callback puts it beside the checkpoint of the weights.
