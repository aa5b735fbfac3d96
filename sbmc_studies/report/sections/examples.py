"""The inputs that a run is most and least certain about, as pictures or as text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from zipfile import BadZipFile, is_zipfile

import numpy as np

from sbmc.checks import BadInput
from sbmc.report.cards import Card, render_cards
from sbmc.report.markup import Html, cut, el, join
from sbmc.report.numbers import percent, short
from sbmc.report.page import Section
from sbmc_studies.data.class_names import class_name
from sbmc_studies.figures.entropies import group_names
from sbmc_studies.report.collect import Setting, StoredRun
from sbmc_studies.report.inputs import look_up_pictures, look_up_texts
from sbmc_studies.report.study_view import StudyView, best_setting, lacking_section
from sbmc_studies.report.tokens import TOKENS, Tokens, look_up_tokens
from sbmc_studies.runs.examples import FILE, Shown, read_examples
from sbmc_studies.runs.extremes import TEST, Extreme, read_extremes

_TITLE = "Most and least certain inputs"


def build(view: StudyView) -> Section | None:
    """Pictures or texts of the setting that the answer speaks of, or of the next that has some.

    The next is one of the same method, if there is one: the first islands of a larger run keep no
    inputs of their own, and a single network in their place would have no disagreement to show.
    """
    study = view.study
    best = best_setting(study.settings)
    if best is None:
        return None
    others = [*(each for each, _ in view.drawn), *study.settings]
    others.sort(key=lambda each: each.method != best.method)
    for setting in (best, *others):
        for run in setting.runs:
            rows = _rows(view, run)
            if rows:
                return Section("inputs", _TITLE, _body(setting, run, *rows))
    text = "No run here kept which inputs it is most and least certain about. It is kept by"
    return lacking_section("inputs", _TITLE, text, f"sbmc run {study.name} --force")


def _rows(view: StudyView, run: StoredRun) -> tuple[str, list[Card], list[Card]] | None:
    extremes = read_extremes(run.folder)
    stored = _stored(view, run)
    if extremes is None:
        return stored
    by, certain, uncertain = extremes
    most = view.limits.examples
    certain, uncertain = certain[:most], uncertain[:most]
    both = [*certain, *uncertain]
    name = str(run.record.data["name"])
    pictures = look_up_pictures(name, both, run.record.seed, view.data_dir)
    texts = look_up_texts(name, both, view.data_dir)
    tokens = look_up_tokens(name, str(run.record.data["checksum"]), both)
    if tokens is not None:
        texts = list(tokens.before)
    if pictures is None and texts is None and stored is not None:
        return stored
    name_class = partial(_class_name, name, tokens)
    cards = [
        _card(name_class, each, by, pictures[i] if pictures else None, texts[i] if texts else None)
        for i, each in enumerate(both)
    ]
    return by, cards[: len(certain)], cards[len(certain) :]


def _stored(view: StudyView, run: StoredRun) -> tuple[str, list[Card], list[Card]] | None:
    """The examples that runs on pictures keep beside the record, for the picture of `sbmc run`."""
    path = run.folder / FILE
    if not path.is_file() or not is_zipfile(path):
        return None
    try:
        rows = read_examples(run.folder)
        cards = [_stored_cards(row, view.limits.examples) for row in rows]
    except (BadInput, OSError, ValueError, KeyError, IndexError, TypeError, EOFError, BadZipFile):
        return None
    return "epistemic", cards[0], cards[1]


def _stored_cards(shown: Shown, most: int) -> list[Card]:
    cards = []
    for i in range(min(len(shown), most)):
        truth, label = str(shown.truths[i]), str(shown.labels[i])
        verdict = f"“{cut(label, 40)}” {percent(float(shown.confidences[i]), 0)}"
        measure = f"H_ep {_small(float(shown.epistemics[i]))}"
        right = truth == f"a {label}" if truth.startswith("a ") else None
        cards.append(Card(cut(truth, 60), verdict, measure, right, np.asarray(shown.images[i])))
    return cards


def _class_name(name: str, tokens: Tokens | None, label: int) -> str:
    word = class_name(name, label) or (tokens.word(label) if tokens else None)
    return word or (f"token {label}" if name in TOKENS else str(label))


def _card(
    word: Callable[[int], str], each: Extreme, by: str, image: np.ndarray | None, text: str | None
) -> Card:
    group = cut(each.group.replace("_", " "), 40)
    if each.truth is None:
        truth = f"out of domain: {group}"
    else:
        truth = f"a {word(each.truth)}" if image is not None else word(each.truth)
    # What would be shown as 0 % says nothing.
    shown = [(k, p) for k, p in each.probabilities[: 3 if image is None else 2] if p >= 0.005]
    likely = ", ".join(f"“{word(int(k))}” {percent(p, 0)}" for k, p in shown)
    sign = "H_ep" if by == "epistemic" else "H_tot"
    measure = f"{sign} {_small(each.epistemic if by == 'epistemic' else each.total)}"
    if image is None:
        where = "test input" if each.group == TEST else f"{group}, input"
        measure += f" · {where} {each.index:,}"
    right = None if each.truth is None else each.truth == each.label
    return Card(truth, likely, measure, right, image, text)


def _small(entropy: float) -> str:
    return "< 0.001" if entropy < 0.001 else short(entropy, 2)


def _body(
    setting: Setting, run: StoredRun, by: str, certain: list[Card], uncertain: list[Card]
) -> Html:
    kind = "epistemic entropy" if by == "epistemic" else "entropy (its members never disagree)"
    outside = any(group.startswith("ood.") for group in group_names(setting.pooled.values))
    turns = "in turns from the test set and each group out of domain, " if outside else ""
    intro = (
        f"By {setting.label}, seed {run.record.seed}. The upper row has, for each label that it "
        f"gives, the input of least {kind}, at most {len(certain)}; the lower one has, {turns}the "
        "inputs of most."
    )
    if not any(card.image is not None or card.text for card in (*certain, *uncertain)):
        intro += " Their pictures or texts are not on this machine, or only features of them exist."
    parts = [
        el("p", intro),
        el("h4", "Most certain"),
        render_cards(certain, "certain"),
        el("h4", "Least certain"),
        render_cards(uncertain, "uncertain"),
    ]
    return join(parts)
