"""Nested R-hat, R-hat and ESS of a run, for its record: a handful of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbmc.checks import BadInput
from sbmc.diagnostics import diagnose
from sbmc.log import logger
from sbmc_studies.records.record import jsonable

if TYPE_CHECKING:
    from sbmc.datasets import DataBundle
    from sbmc.posterior.posterior import Posterior

# How many quantities are diagnosed: enough for a worst case and a median, in little time.
PROJECTIONS = 50
PROBABILITIES = 200


def convergence(posterior: Posterior, data: DataBundle) -> dict[str, Any] | None:
    """Diagnose a posterior in its parameters and in what it predicts of the first test inputs.

    Args:
        posterior: from a sampler.
        data: the data set; its labels are not used.

    Returns:
        The result of `sbmc.diagnostics.diagnose` as plain values. None if there is too little to
        compare (one island, and fewer than four draws of each chain), or if ArviZ is needed and is
        not installed.
    """
    examples = max(1, PROBABILITIES // data.classes)
    inputs = data.test[0][:examples]
    try:
        diagnosis = diagnose(posterior, inputs, projections=PROJECTIONS)
    except (BadInput, ImportError) as error:
        logger.debug("no diagnostics in the record: %s", error)
        return None
    return jsonable(diagnosis.as_dict()) if diagnosis.summaries else None
