"""The public functions, each with arguments that are right, of which one or two are made wrong."""

import tempfile
from functools import cache

import torch
from refusals import estimators, rooms
from refusals.odd_values import X, Y
from refusals.subject import LIKELIHOOD_NAMES, QUIET, Subject, network, posteriors, sampler

import sbmc
from sbmc.prediction import metrics
from sbmc.training import SGD, Adam, EarlyStopping


@cache
def subjects() -> list[Subject]:
    """All functions, with arguments that work."""
    return [*_core(), *rooms.subjects(), *estimators.subjects()]


def _core() -> list[Subject]:
    classes, numbers, prediction, regression = posteriors()
    folder = tempfile.mkdtemp()
    classes.save(f"{folder}/posterior")
    short = {"steps": 2, "perturbations": 5, **QUIET}
    distilled = classes.distil(**short)
    distilled.save(f"{folder}/distilled")
    reference = classes.reference
    data = (X, Y)
    common = {"model": network(), "data": data}
    fitted = {**common, "s": 0.1, "sampler": sampler(), "particles": 2, **QUIET}
    trained = {"model": network(), "train": data, "max_epochs": 1, **QUIET}
    tuned = {**common, "v": 1.0, "s": 0.1, "folds": 2, "sampler": sampler(), "particles": 2}
    tuned |= {"max_epochs": 1, "extensions": 0, **QUIET}
    ensemble = sbmc.train_ensemble(**trained, members=2)
    probs = torch.tensor([[0.75, 0.25]]).repeat(len(Y), 1)
    score = torch.linspace(0, 1, 400).numpy()
    settings = [
        *(sbmc.HMC, sbmc.GHMC, sbmc.MALA, sbmc.PCN, sbmc.NUTS, sbmc.SGHMC, sbmc.SGLD, sbmc.UBU),
        *(sbmc.SMC, sbmc.AutoHMC, sbmc.MCLMC),
        *(sbmc.Budget, sbmc.ByLayer, sbmc.Compute, sbmc.Prior),
        *(sbmc.InProcess, sbmc.Processes, sbmc.Ray, sbmc.Gaussian, sbmc.StudentT),
        *(sbmc.NegativeBinomial, sbmc.DenseCategorical, Adam, EarlyStopping),
    ]
    return [
        *(Subject(each.__name__, each) for each in settings),
        Subject("SGD", SGD, {"learning_rate": 0.1}),
        Subject("Custom", sbmc.Custom, {"function": torch.sub}),
        Subject("Likelihood.of", sbmc.Likelihood.of, {"function": torch.distributions.Normal}),
        Subject("CheckpointAt", sbmc.CheckpointAt, {"path": folder}, ("checkpoint",)),
        Subject("Shards", sbmc.Shards, {"ranks": 2}, ("shards",)),
        Subject("WeightDecay", sbmc.WeightDecay, {"weight_decay": 0.1}),
        Subject("class_weights", sbmc.class_weights, {"labels": Y}),
        Subject("fit", sbmc.fit, fitted, LIKELIHOOD_NAMES),
        Subject("fit with s=0", sbmc.fit, fitted | {"s": 0.0}, LIKELIHOOD_NAMES),
        Subject(
            "fit by budget",
            sbmc.fit,
            {**common, "budget": 0.01, "particles": 2, **QUIET},
            LIKELIHOOD_NAMES,
        ),
        Subject(
            "fit of numbers",
            sbmc.fit,
            {**fitted, "model": network(1), "data": (X, X[:, :1])},
            LIKELIHOOD_NAMES,
        ),
        Subject("expect", sbmc.expect, fitted, LIKELIHOOD_NAMES),
        Subject("build_target", sbmc.build_target, common, LIKELIHOOD_NAMES),
        Subject("describe_prior", sbmc.describe_prior, {"model": network()}, LIKELIHOOD_NAMES),
        Subject("explain", sbmc.explain, {"model": network(), "x": X}, LIKELIHOOD_NAMES),
        Subject("train_map", sbmc.train_map, trained, LIKELIHOOD_NAMES),
        Subject("train_ensemble", sbmc.train_ensemble, trained | {"members": 2}, LIKELIHOOD_NAMES),
        Subject("tune", sbmc.tune, tuned, LIKELIHOOD_NAMES),
        Subject("load", sbmc.load, {"path": f"{folder}/posterior", "model": network()}),
        Subject("merge", sbmc.merge, {"posteriors": [classes, classes]}),
        Subject("posterior.predict", classes.predict, {"inputs": X}, LIKELIHOOD_NAMES),
        Subject("posterior of numbers.predict", numbers.predict, {"inputs": X}, LIKELIHOOD_NAMES),
        Subject("posterior.samples", classes.samples, {"inputs": X}, LIKELIHOOD_NAMES),
        Subject("posterior.reweighted", classes.reweighted, {"weighting": "equal"}),
        Subject("posterior.first", classes.first, {"islands": 1}),
        Subject("posterior.save", classes.save, {"path": f"{folder}/again"}),
        Subject("posterior.to_arviz", classes.to_arviz),
        Subject("posterior.thin", classes.thin, {"k": 2}, ("inputs", "data inputs")),
        Subject("posterior.make_reference", classes.make_reference, {"x": X}, LIKELIHOOD_NAMES),
        Subject("posterior.drift", classes.drift, {"x": X}, LIKELIHOOD_NAMES),
        Subject("posterior.rank", classes.rank, {"pool": X}, LIKELIHOOD_NAMES),
        Subject("posterior of numbers.rank", numbers.rank, {"pool": X}, LIKELIHOOD_NAMES),
        Subject(
            "posterior.update",
            classes.update,
            {"new_data": data, **QUIET},
            ("data", "targets", "dtype", "compute", *LIKELIHOOD_NAMES),
        ),
        Subject("reference.features", reference.features, {"inputs": X}),
        Subject("reference.compare", reference.compare, {"epistemic": [0.1, 0.2]}),
        Subject("posterior.distil", classes.distil, short, ("data inputs", "targets")),
        Subject("posterior of numbers.distil", numbers.distil, short, ("data inputs", "targets")),
        *(
            Subject(f"{kind}.export", each.export, {"path": f"{folder}/{kind}.pt2"})
            for kind, each in (("posterior", classes), ("distilled", distilled))
        ),
        Subject("posterior of numbers.export", numbers.export, {"path": f"{folder}/numbers.pt2"}),
        Subject("distilled.predict", distilled.predict, {"inputs": X}),
        Subject("distilled.save", distilled.save, {"path": f"{folder}/once_more"}),
        Subject("Distilled.load", sbmc.Distilled.load, {"path": f"{folder}/distilled"}),
        Subject(
            "posterior.save_pretrained",
            classes.save_pretrained,
            {"folder": f"{folder}/shared", "evaluate": data, "overwrite": True},
            ("labels",),
        ),
        Subject(
            "distilled.save_pretrained",
            distilled.save_pretrained,
            {"folder": f"{folder}/shared_too", "overwrite": True},
            ("labels",),
        ),
        *(
            Subject(
                f"{each.__name__}.from_pretrained",
                each.from_pretrained,
                {"source": source, "model": given, "local_files_only": True},
                ("path", "network"),
                frozenset(["local_files_only"]),  # nothing may be fetched here
            )
            for each, source, given in (
                (sbmc.Posterior, classes.save_pretrained(f"{folder}/a"), network()),
                (sbmc.Distilled, distilled.save_pretrained(f"{folder}/b"), None),
            )
        ),
        Subject(
            "posterior.confidence", classes.confidence, {"data": data}, left_out=frozenset(["ood"])
        ),
        Subject(
            "posterior of numbers.confidence",
            numbers.confidence,
            {"data": (X, X[:, :1]), "width": 1.0},
        ),
        *(
            Subject(f"{kind}.{method}", getattr(each, method), right)
            for kind, each, answers in (
                ("prediction", prediction, Y),
                ("prediction of numbers", regression, X[:, 0]),
            )
            for method, right in {
                "quantile": {"q": 0.5, "kind": "credible"},
                "interval": {"kind": "credible"},
                "sample": {"n": 2},
                "log_prob": {"targets": answers},
                "crps": {"targets": answers},
                "split": {},
                "to_pandas": {},
            }.items()
        ),
        Subject("prediction.checked_labels", prediction.checked_labels, {"targets": Y}),
        Subject("ensemble.posterior", ensemble.posterior),
        Subject("ensemble.member_with_noise", ensemble.member_with_noise, {"index": 0}),
        Subject("prediction of numbers.cdf", regression.cdf, {"targets": X[:, 0]}),
        *(
            Subject(f"metrics.{each.__name__}", each, {"probs": probs, "labels": Y})
            for each in (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece)
        ),
        Subject(
            "metrics.classification_metrics",
            metrics.classification_metrics,
            {"prediction": prediction, "labels": Y},
        ),
        Subject(
            "metrics.multilabel_metrics",
            metrics.multilabel_metrics,
            {"probs": probs, "labels": torch.eye(2)[Y]},
        ),
        Subject("metrics.ood_metrics", metrics.ood_metrics, {"predictions": {"a": prediction}}),
        Subject("metrics.aurc", metrics.aurc, {"prediction": prediction, "targets": Y}),
        Subject("metrics.rmse", metrics.rmse, {"mean": regression, "targets": X[:, 0]}),
        Subject(
            "metrics.gaussian_nll",
            metrics.gaussian_nll,
            {"mean": X[:, 0], "variance": torch.ones(12), "targets": X[:, 1]},
        ),
        *(
            Subject(
                f"metrics.{each.__name__}", each, {"prediction": regression, "targets": X[:, 0]}
            )
            for each in (
                metrics.crps,
                metrics.interval_coverage,
                metrics.pit,
                metrics.regression_metrics,
            )
        ),
        Subject("metrics.interval_width", metrics.interval_width, {"prediction": regression}),
        Subject("metrics.mean_and_error", metrics.mean_and_error, {"values": [1.0, 2.0]}),
        Subject("metrics.standard_error", metrics.standard_error, {"values": [1.0, 2.0]}),
        Subject("metrics.risk_curve", metrics.risk_curve, {"score": score, "loss": score}),
    ]
