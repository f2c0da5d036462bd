"""Statistics that don't flatter: fixtures, not decisions, count as independent."""

from clvlab.statistics.bankroll import Bankroll, bankroll
from clvlab.statistics.beat_rate import (
    BeatRate,
    Difference,
    Median,
    beat_close_rate,
    cluster_median,
    paired_difference,
    wilson_interval,
)
from clvlab.statistics.calibration import Calibration, calibrate, calibration
from clvlab.statistics.clusters import (
    MIN_CLUSTERS,
    BoundedClusters,
    Clusters,
    Concentration,
    Errors,
    cluster_errors,
    concentration,
    effective_clusters,
    mean_skewness,
    sum_by_cluster,
)
from clvlab.statistics.delays import Delay, delay
from clvlab.statistics.families import Family, family_of
from clvlab.statistics.formulas import Formula, parse_formula
from clvlab.statistics.lead_lag import Interpretation, LeadLag, Series, lead_lag
from clvlab.statistics.means import Estimate, cluster_mean, estimates, group_means, weighted_mean
from clvlab.statistics.overfitting import Overfitting, overfitting
from clvlab.statistics.paths import known_moves, path_slopes, price_points
from clvlab.statistics.permutation import Permutation, permute_fixtures, sign_flip_p_values
from clvlab.statistics.power import Power, power
from clvlab.statistics.regression import Regression, regress
from clvlab.statistics.slopes import Share, Slope, cluster_slope, explained_share
from clvlab.statistics.staking import Staking, kelly_shares, stakes, training_edge

__all__ = [
    "MIN_CLUSTERS",
    "Bankroll",
    "BeatRate",
    "BoundedClusters",
    "Calibration",
    "Clusters",
    "Concentration",
    "Delay",
    "Difference",
    "Errors",
    "Estimate",
    "Family",
    "Formula",
    "Interpretation",
    "LeadLag",
    "Median",
    "Overfitting",
    "Permutation",
    "Power",
    "Regression",
    "Series",
    "Share",
    "Slope",
    "Staking",
    "bankroll",
    "beat_close_rate",
    "calibrate",
    "calibration",
    "cluster_errors",
    "cluster_mean",
    "cluster_median",
    "cluster_slope",
    "concentration",
    "delay",
    "effective_clusters",
    "estimates",
    "explained_share",
    "family_of",
    "group_means",
    "kelly_shares",
    "known_moves",
    "lead_lag",
    "mean_skewness",
    "overfitting",
    "paired_difference",
    "parse_formula",
    "path_slopes",
    "permute_fixtures",
    "power",
    "price_points",
    "regress",
    "sign_flip_p_values",
    "stakes",
    "sum_by_cluster",
    "training_edge",
    "weighted_mean",
    "wilson_interval",
]
