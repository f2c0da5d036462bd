"""A mean and its interval over fixtures in statsmodels."""

import numpy as np
from statsmodels.regression.linear_model import OLS


def run(values: np.ndarray, fixtures: np.ndarray) -> tuple[float, float, float]:
    fit = OLS(values, np.ones_like(values)).fit(cov_type="cluster", cov_kwds={"groups": fixtures}, use_t=True)
    return fit.bse[0], *fit.conf_int()[0]
