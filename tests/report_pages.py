"""Made-up records for reports, and a reader of pages."""

import json
from html.parser import HTMLParser

import confidence_records
import numpy as np

from sbmc_studies.experiments.experiment import get_experiment
from sbmc_studies.experiments.methods import get_method
from sbmc_studies.experiments.settings import ALWAYS, resolve
from sbmc_studies.records.record import Record, write_record
from sbmc_studies.report import collect, render
from sbmc_studies.runs.confidence import PROTOCOLS, arrays_file

GROUPS = ("correct", "incorrect", "id", "ood.8", "ood.white_noise", "ood.all")


def entropies(level=0.0):
    """Entropies whose parts sum to the total."""
    found = {}
    for place, group in enumerate(GROUPS):
        found[f"entropy.aleatoric.{group}"] = 0.1 + 0.05 * place
        found[f"entropy.epistemic.{group}"] = 0.02 * (place + 1) + level
        found[f"entropy.total.{group}"] = 0.12 + 0.07 * place + level
    return found


def island(index, smc=False):
    """What a record has of an island."""
    plain = {"index": index, "outcome": "completed", "log_evidence": None, "epochs": 160.0}
    plain |= {"acceptance": 0.7 + 0.01 * index, "step_size": 0.05, "message": ""}
    if smc:
        plain["log_evidence"] = -200.0 - 3.5 * index
        plain["collapsed"] = ""
        plain["temperatures"] = {
            "temperature": [0.01, 0.1, 0.5, 1.0],
            "ess": [5.0, 5.0, 5.0, 8.0 + index / 10],
            "acceptance": [0.9, 0.8, 0.7, 0.6],
        }
    return plain


def make_record(
    experiment="digits", method="s-hmc", seed=0, level=0.0, confidence=True, smc=False, **more
):
    """A record with everything that a report shows; `more` replaces fields of it."""
    overrides = more.pop("overrides", {})
    if experiment in ("digits", "mnist7"):
        known = get_experiment(experiment), get_method(method)
        settings = resolve(*known, more.pop("preset", "paper"), overrides)
    else:
        settings = {**dict.fromkeys(ALWAYS), "s": 0.1, "islands": 2, **overrides}
    metrics = confidence_records.metrics(level) | {"brier": 0.1 - level, "island_ess": 1.5}
    if not confidence:
        start = ("confidence.", "ood.")
        metrics = {name: value for name, value in metrics.items() if not name.startswith(start)}
    fields = {
        "settings": settings,
        "data": {"name": experiment, "checksum": "ab" * 32},
        "cost": {
            "epochs": 160.0,
            "forward_epochs": 0.0,
            "anchor_epochs": 200.0,
            "total_epochs": 1800.0 + seed,
            "wall_seconds": 30.0 + seed,
        },
        "metrics": metrics | entropies(level + 0.001 * seed),
        "islands": [island(i, smc) for i in range(settings["islands"] or 1)],
        "outcome": "completed",
        "versions": {"python": "3.11.7", "sbmc": "0.1.0"},
        "hardware": {"cores": 2, "processor": "a processor"},
    }
    return Record(experiment=experiment, method=method, seed=seed, **(fields | more))


def write_run(out, *args, pictures=False, **kwargs):
    """Write such a record, and the arrays of the meta-classifier beside it."""
    record = make_record(*args, **kwargs)
    folder = write_record(out, record).parent
    if "confidence.default.auc_roc" in record.metrics:
        for protocol in PROTOCOLS:
            arrays = confidence_records.arrays(record.seed)
            np.savez_compressed(arrays_file(folder, protocol), allow_pickle=False, **arrays)
    if pictures:
        entry = {"group": "test", "index": 3, "truth": 1, "label": 1, "total": 0.2}
        entry |= {"probabilities": [[1, 0.9], [0, 0.1]], "epistemic": 0.1}
        content = {"format": "sbmc-extremes", "version": 1, "by": "epistemic", "data": "digits"}
        content |= {"certain": [entry], "uncertain": [{**entry, "group": "8", "truth": None}]}
        (folder / "extremes.json").write_text(json.dumps(content))
    return record


def write_study(out, seeds=2):
    """A comparison on digits, with s and P varied and SMC among it."""
    for seed in range(seeds):
        write_run(out, method="map", seed=seed, islands=[])
        write_run(out, method="de", seed=seed, level=0.01, islands=[])
        for islands in (1, 2):
            for s in (0.1, 0.25):
                change = {"islands": islands, "s": s}
                level = 0.02 * islands + 0.01 * s
                write_run(out, seed=seed, level=level, overrides=change, pictures=True)
        write_run(out, method="s-smc", seed=seed, smc=True, overrides={"islands": 2})
    return out


class Reader(HTMLParser):
    """Elements of a page with their attributes, and the text of each kind."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts, self.tables = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(["", dict(attributes).get("data-v")])

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1][0] += data

    @property
    def text(self):
        """All that is read, but for style and script."""
        return " ".join(words for tag, words in self.texts if tag not in ("style", "script"))

    def find(self, tag):
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def table(self, heading):
        """The first table that has such a heading, as rows of (text, exact value)."""
        return next(rows for rows in self.tables if heading in [cell[0] for cell in rows[0]])


def read_page(*places, **options):
    """Make a page and read it."""
    return Reader(render(collect(places), [str(place) for place in places], **options))
