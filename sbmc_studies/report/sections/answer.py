"""The answer in three sentences: how accurate, how sure, at what cost."""

from __future__ import annotations

from sbmc.report.markup import Html, el
from sbmc.report.numbers import count, percent, seconds, short
from sbmc_studies.report.collect import Setting, Study
from sbmc_studies.report.results_beside_paper import count_agreeing
from sbmc_studies.report.study_view import StudyView, best_setting
from sbmc_studies.report.toy_runs import toy_sentences

_EPISTEMIC = "entropy.epistemic."
_NEGLIGIBLE = 0.001  # nats of disagreement


def build(view: StudyView) -> Html:
    """Three sentences in a paragraph."""
    return el("p", " ".join(sentences(view.study)), class_="answer")


def sentences(study: Study) -> list[str]:
    """Say what came out.

    Args:
        study: the records.

    Returns:
        Three sentences; fewer where there are no results to speak of.
    """
    if study.name == "toy":
        toy = toy_sentences(study)
        if toy:
            return toy
    settings = [each for each in study.settings if each.value("accuracy") is not None]
    if not settings:
        runs = len(study.runs) + len(study.others)
        return [f"None of the {count(runs, 'run')} found here has a result to report."]
    best = best_setting(settings)
    assert best is not None
    return [
        _accuracy_sentence(best, settings),
        _doubt_sentence(best, settings),
        _cost_sentence(best, settings, study),
    ]


def _accuracy_sentence(best: Setting, settings: list[Setting]) -> str:
    accuracy = percent(best.value("accuracy"))
    nll = short(best.value("nll"))
    others = [
        f"{each.label}: {percent(each.value('accuracy'))}" for each in _references(best, settings)
    ]
    beside = f" ({'; '.join(others)})" if others else ""
    if len(settings) == 1:
        return f"{best.label} is right on {accuracy} of the test inputs, with an NLL of {nll}."
    if best.value("nll") is None:
        start = f"{best.label} is the most accurate of {len(settings):,} settings"
        return f"{start}: right on {accuracy} of the test inputs{beside}."
    return (
        f"Of {len(settings):,} settings {best.label} has the lowest NLL, {nll}, and is right on "
        f"{accuracy} of the test inputs{beside}."
    )


def _doubt_sentence(best: Setting, settings: list[Setting]) -> str:
    right, wrong, outside = (
        best.value(_EPISTEMIC + name) for name in ("correct", "incorrect", "ood.all")
    )
    if right is None and wrong is None:
        return "Its records have no entropies, so it cannot be said what it is unsure about."
    if max(right or 0.0, wrong or 0.0, outside or 0.0) < _NEGLIGIBLE:
        return _certain_sentence(best, settings)
    parts = [f"{short(right)} nats on what it gets right", f"{short(wrong)} on its mistakes"]
    if outside is not None:
        parts.append(f"{short(outside)} out of domain")
    sentence = f"Its epistemic entropy is {', '.join(parts[:-1])} and {parts[-1]}"
    rival = next((each for each in _references(best, settings) if each.method == "de"), None)
    theirs = rival.value(_EPISTEMIC + "ood.all") if rival else None
    if rival and theirs and outside:
        sentence += f", where that of {rival.label} is {short(theirs)}"
    return sentence + "."


def _certain_sentence(best: Setting, settings: list[Setting]) -> str:
    """That a setting has no disagreement, and which setting of lowest NLL has some."""
    sentence = (
        "It is a single network, so it cannot tell what it does not know: epistemic entropy 0"
    )
    if best.value(_EPISTEMIC + "incorrect"):
        sentence = "Its members hardly disagree: epistemic entropy below 0.001 nats"
    others = [
        each for each in settings if (each.value(_EPISTEMIC + "incorrect") or 0) >= _NEGLIGIBLE
    ]
    second = best_setting(others)
    if second is None:
        total = best.value("entropy.total.incorrect")
        return f"{sentence} everywhere (total entropy of its mistakes {short(total)} nats)."
    wrong, outside = (second.value(_EPISTEMIC + name) for name in ("incorrect", "ood.all"))
    beyond = "" if outside is None else f" and {short(outside)} out of domain"
    return (
        f"{sentence}; of those that doubt more, {second.label} has the lowest NLL, "
        f"{short(second.value('nll'))}, with {short(wrong)} nats on its mistakes{beyond}."
    )


def _cost_sentence(best: Setting, settings: list[Setting], study: Study) -> str:
    spent, epochs = best.pooled.cost.get("wall_seconds"), best.pooled.cost.get("total_epochs")
    if spent is None:
        sentence = (
            f"It took {short(epochs)} epochs in all" if epochs else "Its cost was not measured"
        )
    else:
        sentence = f"It took {seconds(spent)} a seed"
        rival = next((each for each in _references(best, settings) if each.method == "de"), None)
        theirs = rival.pooled.cost.get("wall_seconds") if rival else None
        if rival and theirs:
            sentence += f", {spent / theirs:.2g} times as long as {rival.label}"
    agreeing, compared = count_agreeing(study)
    if compared:
        return (
            f"{sentence}; of {compared:,} numbers that the paper prints for settings found here, "
            f"{agreeing:,} agree within the tolerance."
        )
    number = f"{count(len(best.runs), 'seed')}"
    return f"{sentence}; the numbers rest on {number}."


def _references(best: Setting, settings: list[Setting]) -> list[Setting]:
    """The baselines: MAP, and the deep ensemble, with as many islands if there is one.

    They have the same prior and data, because otherwise the prior would be compared, too.
    """

    def prior_and_data(each: Setting) -> tuple[object, ...]:
        return tuple(each.record.settings.get(name) for name in ("prior_variance", "fraction"))

    references = []
    for method in ("map", "de"):
        candidates = [
            each
            for each in settings
            if each.method == method and prior_and_data(each) == prior_and_data(best)
        ]
        candidates.sort(key=lambda each: (each.islands != best.islands, -(each.islands or 0)))
        references += candidates[:1] if method != best.method else []
    return references
