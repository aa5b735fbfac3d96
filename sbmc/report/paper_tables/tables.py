"""All tables of a study that some run fills."""

from __future__ import annotations

from sbmc.report.collect import Study
from sbmc.report.given import Given
from sbmc.report.paper_tables.ablation import ablation_tables
from sbmc.report.paper_tables.confidence import confidence_tables
from sbmc.report.paper_tables.groups import group_table
from sbmc.report.paper_tables.made import Made
from sbmc.report.paper_tables.times import time_table
from sbmc.studies.tables.appendix import appendix_specs


def paper_tables(study: Study) -> list[Made]:
    """Fill the tables that `sbmc table` and `sbmc table --confidence` make of a study.

    Args:
        study: what was found: no other record is looked at.

    Returns:
        The tables of the paper's appendix, those of the meta-classifier, and that of wall times,
        as far as a run fills a row of them.
    """
    experiment = study.experiment
    if experiment is None:
        return []
    given = Given(study)
    made: list[Made | None] = []
    for spec in appendix_specs(experiment.name):
        if spec.by_group:
            made.append(group_table(experiment, spec, given))
        else:
            made += ablation_tables(experiment, spec, given)
    made += confidence_tables(experiment, given)
    made.append(time_table(experiment, given))
    return [each for each in made if each is not None]
