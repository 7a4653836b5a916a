"""Quantize a float32 zarr array to an int8 zarr array, in parallel and in chunks.

pip install "zarr>=3" dask distributed
"""

import tempfile

import dask.array as da
import numpy as np
import zarr
from dask.distributed import Client, LocalCluster

import pyquant as pq
import pyquant.integrations.dask as pqd


def quantize_store(source, target):
    """Quantize all chunks of a zarr array into a new array, and return the parameters."""
    x = da.from_zarr(source)
    p = pqd.choose_qparams(x, axis=1)  # finds the extremes of each chunk, and combines them
    codes = zarr.create_array(target, shape=x.shape, chunks=x.chunksize, dtype=p.dtype)
    codes.attrs["scale"] = p.scale.tolist()
    da.store(pqd.quantize(x, p.scale, axis=1), codes, lock=False)
    return p


if __name__ == "__main__":
    data = np.random.default_rng(0).standard_normal((8_000, 512), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/float32.zarr", f"{folder}/int8.zarr"
        zarr.create_array(source, data=data, chunks=(1_000, 256))
        with LocalCluster(n_workers=2, dashboard_address=None) as cluster, Client(cluster):
            p = quantize_store(source, target)
        codes = zarr.open_array(target)[:]
    assert p == pq.choose_qparams(data, axis=1)
    assert np.array_equal(codes, p.quantize(data))
    print(f"{codes.size} codes, equal to the codes of one process")
