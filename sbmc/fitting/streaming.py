"""Whether the data of `fit` are held in memory or streamed, and what streamed data allow."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from sbmc.checks import BadInput, Phrase, require
from sbmc.fitting.anchors import DEFAULT_S, Anchoring
from sbmc.fitting.request import FitRequest
from sbmc.islands.executors import Executor
from sbmc.islands.process_memory import format_bytes, parse_bytes
from sbmc.likelihoods import Weighted
from sbmc.log import logger
from sbmc.model.data import Examples, as_examples, leaves, split_batch
from sbmc.model.dataset_inputs import is_dataset
from sbmc.model.hugging_face import in_torch_format, refuse_splits
from sbmc.model.loaders import chosen_rows
from sbmc.model.reading import dataset_length, iterable_loader, read_batch
from sbmc.model.stream_survey import is_repeated
from sbmc.model.streams import LoaderSource, MapSource, Streamed, open_stream
from sbmc.progress import open_progress
from sbmc.samplers.auto_schedule import EPOCHS_FOR_ALL_DATA

# Data sets that would take more bytes are streamed, if no memory limit says otherwise.
STREAM_BYTES = 4 * 2**30
SAMPLERS = (
    "left out, or a sampler on mini-batches, such as sbmc.SGHMC() or sbmc.AutoHMC with fewer than "
    f"{EPOCHS_FOR_ALL_DATA} epochs"
)


def training_data(request: FitRequest) -> Examples:
    """The data of a request: in memory, in mapped files, or as a stream.

    Arrays are never streamed, since mapped ones are read in place. A data set or a loader is held
    in memory, unless it is iterable, `streaming` or `augment` are set, or it takes more than the
    memory limit, or than `STREAM_BYTES` without a limit.

    Args:
        request: the arguments of `fit`.

    Raises:
        BadInput: the data break a rule, or the sampler takes no streams.
    """
    data, compute = request.data, request.compute
    refuse_splits(data, "data")
    inner = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(inner, IterableDataset):
        rule = "left out, or True, for an iterable data set, which can only be read in passes"
        require(compute.streaming is not False, "streaming", rule, compute.streaming)
        _require_sampler(request, "iterable data")
        return _iterable_stream(request, data, inner)
    if isinstance(data, Examples) or not (isinstance(data, DataLoader) or is_dataset(data)):
        rule = (
            "left out for arrays and lists, which are held, or read in place if mapped from files"
        )
        require(not compute.streaming, "streaming", rule, compute.streaming)
        rule = "left out for arrays and lists, whose rows are the same each time; give a data set"
        require(not compute.augment, "augment", rule, compute.augment)
        return as_examples(data)
    if compute.streaming is False:
        return as_examples(data)
    source, why = _map_source(data), ""
    if compute.augment:
        why = "`augment` is set"
    elif compute.streaming:
        why = "`streaming` is set"
    else:
        size = _size(data, len(source))
        most = STREAM_BYTES if compute.memory_limit is None else parse_bytes(compute.memory_limit)
        if size > most:
            why = f"they would take {format_bytes(size)} of memory, more than {format_bytes(most)}"
    if not why:
        return as_examples(data)
    _require_sampler(request, f"data that are streamed, since {why}")
    asked_for = compute.augment or compute.streaming
    say = logger.info if asked_for else logger.warning
    say("data are read anew in each pass (streamed), since %s", why)
    return _opened(request, source, len(source))


def require_passes_alone(request: FitRequest) -> None:
    """Refuse what needs all data at once, for data that are streamed.

    Raises:
        BadInput: an argument needs all data.
    """
    shown = Phrase("data that are streamed")
    s = request.s
    require(not isinstance(s, str), "s", "a number, or left out, for streamed data", s)
    assert not isinstance(s, str)  # or it was refused
    refused = {
        "validation": request.validation is not None,
        "weights": request.weights is not None or isinstance(request.likelihood, Weighted),
        "prior_variance": isinstance(request.prior_variance, str)
        and request.prior_variance == "evidence",
        "prior": Anchoring(DEFAULT_S if s is None else s, request.prior).curved,
        "shards": request.compute.shards is not None,
    }
    remedies = {
        "validation": "left out: it is for choosing s, which is a number here",
        "weights": "left out: rows of a stream have no numbers that weights could go by",
        "prior_variance": "other than 'evidence', which evaluates all data at once",
        "prior": "without a covariance of curvature, which evaluates all data at once",
        "shards": "left out: ranks hold parts of the data, and a stream is held by nobody",
    }
    for name, given in refused.items():
        require(not given, name, remedies[name], shown)
    if request.islands == 1:
        logger.info(
            "the particles of an island share the mini-batches of a stream, and the error that "
            "comes from them; several islands show it"
        )
    ordered = request.data.stream.source.ordered
    if getattr(request.sampler, "paired", False) and not ordered:
        raise BadInput(
            f"`sampler` must be one without backward passes, such as sbmc.SGHMC, for data in an "
            f"order of their own, but got {type(request.sampler).__name__}. A map-style data set "
            "can be read in any order."
        )


def one_by_one(executor: Executor) -> Executor:
    """The same executor with one island a batch: each reads the stream for itself."""
    if not executor.folds:
        return executor
    return dataclasses.replace(executor, fold=1)  # type: ignore[type-var]


def stream_settings(examples: Streamed) -> dict[str, Any]:
    """What a posterior's settings say of a stream."""
    shared = {"streaming": True, "batches": "shared by the particles of an island"}
    return {**shared, "augment": True} if examples.stream.augmented else shared


def _require_sampler(request: FitRequest, what: str) -> None:
    takes = request.sampler is None or getattr(request.sampler, "takes_streams", False)
    name = type(request.sampler).__name__
    rule = f"{SAMPLERS}, for {what}"
    if not request.compute.augment and not isinstance(request.data, IterableDataset):
        rule += "; or hold them in memory, compute=sbmc.Compute(streaming=False)"
    require(takes, "sampler", rule, Phrase(name))


def _opened(request: FitRequest, source: LoaderSource | MapSource, total: int | None) -> Streamed:
    """The stream, after the first pass, which samples nothing and may take minutes."""
    with open_progress(request.progress, "reading the data", total=total, unit="rows") as bar:
        return open_stream(source, augmented=request.compute.augment, report=bar.update)


def _iterable_stream(request: FitRequest, data: Any, dataset: Any) -> Streamed:
    loader = data
    if not isinstance(data, DataLoader):
        loader = iterable_loader(dataset)
    rule = "a DataLoader without drop_last: rows that it drops would be no data"
    require(not loader.drop_last, "data", rule, Phrase("drop_last=True"))
    stream = _opened(request, LoaderSource(loader), None)
    parts = "each has to read a part of its own: torch.utils.data.get_worker_info"
    if hasattr(dataset, "__len__"):
        length = dataset_length(dataset, "data")
        rule = f"an iterable data set of {length} rows, as its length says (with workers, {parts})"
        require(stream.rows == length, "data", rule, Phrase(f"{stream.rows} rows"))
    rule = f"an iterable data set whose workers read different rows ({parts}; or num_workers=0)"
    repeated = is_repeated(stream, loader.num_workers)
    require(not repeated, "data", rule, Phrase(f"each row {loader.num_workers} times"))
    return stream


def _map_source(data: Any) -> MapSource:
    if not isinstance(data, DataLoader):
        return MapSource(in_torch_format(data, "data"), range(dataset_length(data, "data")))
    settings: dict[str, Any] = {"num_workers": data.num_workers, "timeout": data.timeout}
    settings["worker_init_fn"] = data.worker_init_fn
    if data.num_workers:
        settings["prefetch_factor"] = data.prefetch_factor
        settings["multiprocessing_context"] = data.multiprocessing_context
    chosen = chosen_rows(data, "data")
    return MapSource(data.dataset, chosen, data.collate_fn, settings=settings)


def _size(data: Any, total: int) -> int:
    """Bytes that all rows would take, by the first of them."""
    require(total > 0, "data", "non-empty", Phrase("0 examples"))
    if isinstance(data, DataLoader):
        first = read_batch(data.dataset, [chosen_rows(data, "data")[0]], "data", data.collate_fn)
    else:
        first = read_batch(in_torch_format(data, "data"), [0], "data", default_collate)
    inputs, targets = split_batch(first, "data")
    return total * sum(t.nbytes for t in (*leaves(inputs), targets))
