"""Statistics that don't flatter: fixtures, not decisions, are what is independent."""

from clvlab.statistics.beating import BeatRate, Middle, beat_close_rate, cluster_median, wilson_interval
from clvlab.statistics.calibration import Calibration, calibrate, calibration
from clvlab.statistics.clusters import (
    MIN_CLUSTERS,
    Clusters,
    Draws,
    Estimate,
    cluster_errors,
    cluster_mean,
    estimates,
    estimates_together,
    group_means,
    resample,
    sum_by_cluster,
)
from clvlab.statistics.concentration import Concentration, concentration
from clvlab.statistics.pairs import Difference, paired_difference
from clvlab.statistics.placebo import Placebo, placebo, placebos
from clvlab.statistics.trials import Deflated, deflated_t, expected_max_t, family_wise_p_values, influence_shape

__all__ = [
    "MIN_CLUSTERS",
    "BeatRate",
    "Calibration",
    "Clusters",
    "Concentration",
    "Deflated",
    "Difference",
    "Draws",
    "Estimate",
    "Middle",
    "Placebo",
    "beat_close_rate",
    "calibrate",
    "calibration",
    "cluster_errors",
    "cluster_mean",
    "cluster_median",
    "concentration",
    "deflated_t",
    "estimates",
    "estimates_together",
    "expected_max_t",
    "family_wise_p_values",
    "group_means",
    "influence_shape",
    "paired_difference",
    "placebo",
    "placebos",
    "resample",
    "sum_by_cluster",
    "wilson_interval",
]
