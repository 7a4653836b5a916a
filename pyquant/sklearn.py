# SPDX-License-Identifier: Apache-2.0
"""A transformer for scikit-learn, which this module imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from pyquant import _core
from pyquant._standard import shown
from pyquant.qparams import QParams, choose_qparams

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    class _Estimator:  # scikit-learn says no types
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def fit_transform(self, X: Any, y: Any = None) -> npt.NDArray[Any]: ...
        def get_feature_names_out(self, input_features: Any = None) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

else:

    class _Estimator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
        pass


__all__ = ["Quantizer"]


def __dir__() -> list[str]:
    return sorted(__all__)


class Quantizer(_Estimator):
    """
    Quantize features, by ranges that are those of the training data.

    Parameters
    ----------
    dtype : dtype_like, optional
        The quantized type, int8 by default; see `pyquant.choose_qparams`.
    per_feature : bool, optional
        Whether each feature has a scale of its own (the default), or all have the same.
    symmetric : bool, optional
        Whether the zero point is in the middle, as for `pyquant.choose_qparams`. By default
        for signed types and narrow floats, while unsigned types use all codes.
    quantiles : (float, float), optional
        Which part of the training data the range covers. Default (0, 1), all of it; with
        (0.001, 0.999) the outermost thousandths do not widen steps, and are clipped.
    clip : bool, optional
        Whether `transform` takes what is out of range to its ends (the default), or raises
        an error that says how much there is, and where the first is.

    Attributes
    ----------
    qparams_ : QParams
        Scales and zero points.
    n_features_in_ : int
        How many features `fit` has seen.
    feature_names_in_ : ndarray of str
        Their names, where they have any.

    Notes
    -----
    The range always contains 0, and so has a code for it. A feature that is 0 throughout
    gets scale 1. Quantiles are NumPy's, of one feature at a time; without `per_feature`
    they take a copy of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.sklearn import Quantizer
    >>> X = np.array([[-1, 10], [0.5, 20], [4, 40]], np.float32)
    >>> quantizer = Quantizer(symmetric=False).fit(X)
    >>> quantizer.transform(X)
    array([[-128,  -64],
           [ -51,   -1],
           [ 127,  127]], dtype=int8)
    >>> quantizer.inverse_transform(quantizer.transform(X)).round(2)
    array([[-1.  , 10.04],
           [ 0.51, 19.92],
           [ 4.  , 40.  ]], dtype=float32)
    """

    n_features_in_: int

    def __init__(
        self,
        dtype: npt.DTypeLike = "int8",
        *,
        per_feature: bool = True,
        symmetric: bool | None = None,
        quantiles: tuple[float, float] = (0, 1),
        clip: bool = True,
    ) -> None:
        """Keep the parameters, which `fit` checks."""
        self.dtype = dtype
        self.per_feature = per_feature
        self.symmetric = symmetric
        self.quantiles = quantiles
        self.clip = clip

    def fit(self, X: Any, y: Any = None) -> Self:
        """
        Choose scales and zero points.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            The training data.
        y : None
            Ignored.

        Returns
        -------
        Quantizer
            Itself.

        Raises
        ------
        TypeError, ValueError
            If a parameter or `X` does not fit; if `X` holds a NaN or an infinity.
        """
        part = _quantiles(self.quantiles)
        data = self._checked(X, reset=True)
        self.qparams_: QParams = choose_qparams(
            data if part == (0, 1) else _ranges(data, part, self.per_feature),
            dtype=self.dtype,
            axis=1 if self.per_feature else None,
            symmetric=self.symmetric,
        )
        return self

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """
        Quantize.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Numbers; all finite.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Codes of `dtype`.

        Raises
        ------
        ValueError
            If `X` does not fit, or something is out of range and not to be clipped.
        """
        check_is_fitted(self)
        data = self._checked(X, reset=False)
        beyond: Any = "saturate" if self.clip else "raise"
        return self.qparams_.quantize(data, out_of_range=beyond)

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """
        Make numbers of codes.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Codes of `dtype`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            float32; float64 if the training data was.

        Raises
        ------
        TypeError, ValueError
            If `X` has another type, or another number of features.
        """
        check_is_fitted(self)
        p = self.qparams_
        codes = _core.plain(X, "X")
        if codes.dtype != p.dtype:
            msg = f"X: expected codes of {p.dtype}, got {codes.dtype}"
            raise TypeError(msg)
        if codes.ndim != 2 or codes.shape[1] != self.n_features_in_:
            msg = f"X: expected {self.n_features_in_} features, got shape {codes.shape}"
            raise ValueError(msg)
        return p.dequantize(codes, dtype=p.scale.dtype)

    def _checked(self, values: Any, *, reset: bool) -> npt.NDArray[Any]:
        kinds = [np.float32, np.float64, np.float16]
        made = validate_data(self, values, dtype=kinds, reset=reset)
        return cast("npt.NDArray[Any]", made)

    def __sklearn_tags__(self) -> Any:
        """Say that codes do not have the type of the data."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _quantiles(given: Any) -> tuple[float, float]:
    try:
        lo, hi = (float(part) for part in given)
    except (TypeError, ValueError):
        lo = hi = np.nan
    if not 0 <= lo < hi <= 1:
        msg = (
            f"quantiles: expected two of 0 to 1, in ascending order, got {shown(given):.60}"
        )
        raise ValueError(msg)
    return lo, hi


def _ranges(
    data: npt.NDArray[Any], part: tuple[float, float], per_feature: bool
) -> npt.NDArray[Any]:
    """Both quantiles of each column, or of all."""
    columns = data.T if per_feature else [data]
    ends = [np.quantile(column, part) for column in columns]
    return np.stack(ends, axis=1).astype(data.dtype)
