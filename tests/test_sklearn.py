"""pyquant.sklearn: by scikit-learn's own checks, and beside choose_qparams."""

import doctest
import pickle

import numpy as np
import pytest

import pyquant as pq

pytest.importorskip("sklearn", minversion="1.6")  # which the module imports
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pyquant.sklearn
from pyquant.sklearn import Quantizer


@pytest.mark.filterwarnings("ignore")  # the checks themselves warn
@parametrize_with_checks(
    [
        Quantizer(),
        Quantizer("uint8", per_feature=False, quantiles=(0.01, 0.99)),
        Quantizer("int16", symmetric=False, clip=False),
    ]
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def data(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(500, 7)) * [1, 2, 4, 0, 50, 1e-6, 3]).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("real", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("per_feature", [True, False])
@pytest.mark.parametrize("symmetric", [None, True, False])
def test_as_choose_qparams(dtype, real, per_feature, symmetric):
    x = data(real)
    quantizer = Quantizer(dtype, per_feature=per_feature, symmetric=symmetric).fit(x)
    axis = 1 if per_feature else None
    p = pq.choose_qparams(x, dtype=dtype, axis=axis, symmetric=symmetric)
    assert quantizer.qparams_ == p
    q = quantizer.transform(x)
    np.testing.assert_array_equal(q, p.quantize(x))
    y = quantizer.inverse_transform(q)
    assert y.dtype == (np.float64 if real is np.float64 else np.float32)
    np.testing.assert_array_equal(y, p.dequantize(q, dtype=y.dtype))


@pytest.mark.parametrize("per_feature", [True, False])
def test_quantiles_clip(per_feature):
    x = data()
    x[3] = 1e6
    part = (0.05, 0.95)
    quantizer = Quantizer("uint8", per_feature=per_feature, quantiles=part).fit(x)
    ends = np.quantile(x, part, axis=0 if per_feature else None).astype(np.float32)
    axis = 1 if per_feature else None
    assert quantizer.qparams_ == pq.choose_qparams(ends, dtype="uint8", axis=axis)
    assert (quantizer.transform(x)[3] == 255).all()
    assert quantizer.qparams_.scale.max() < 1e3
    quantizer.clip = False
    with pytest.raises(ValueError, match=r"^x: .* the first at index"):
        quantizer.transform(x)


def test_narrow_floats():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its
    q = Quantizer("float8_e4m3fn").fit_transform(data())
    assert q.dtype == ml_dtypes.float8_e4m3fn


def test_as_scikit_learn_expects():
    x = data()
    pipeline = make_pipeline(StandardScaler(), Quantizer(quantiles=(0.01, 0.99)))
    q = pipeline.fit_transform(x)
    assert q.dtype == np.int8
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.transform(x), q)
    assert clone(pipeline[-1]).get_params() == pipeline[-1].get_params()
    pandas = pytest.importorskip("pandas")  # whose frames have names of columns
    frame = pandas.DataFrame(x, columns=list("abcdefg"))
    named = Quantizer().set_output(transform="pandas").fit_transform(frame)
    assert list(named.columns) == list("abcdefg")
    assert set(named.dtypes) == {np.dtype("int8")}


@pytest.mark.parametrize("quantiles", [(0, 2), (1, 0), 0.5, (0.1,), "ab", (np.nan, 1)])
def test_quantiles_that_are_none(quantiles):
    with pytest.raises(ValueError, match=r"^quantiles: expected two of 0 to 1"):
        Quantizer(quantiles=quantiles).fit(data())


def test_errors():
    x = data()
    with pytest.raises((TypeError, ValueError), match=r"^dtype: expected"):
        Quantizer("some").fit(x)
    quantizer = Quantizer().fit(x)
    with pytest.raises(TypeError, match=r"^X: expected codes of int8, got uint8$"):
        quantizer.inverse_transform(np.zeros((2, 7), np.uint8))
    with pytest.raises(ValueError, match=r"^X: expected 7 features, got shape \(2, 3\)$"):
        quantizer.inverse_transform(np.zeros((2, 3), np.int8))


def test_docstrings():
    assert doctest.testmod(pyquant.sklearn).attempted > 4
    assert doctest.testmod(pyquant.sklearn).failed == 0
