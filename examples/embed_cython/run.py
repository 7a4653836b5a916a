"""Quantize embeddings with the module, and compare with pyquant.quantize."""

import embed_cython
import numpy as np

import pyquant as pq

x = np.random.default_rng(1).normal(size=(1000, 384)).astype(np.float32)
scales = np.empty(len(x), np.float32)
out = np.empty(x.shape, np.int8)
embed_cython.quantize_embeddings(x, scales, out)
assert np.array_equal(out, pq.quantize(x, scales, axis=0))
print("embed_cython: 1000 embeddings quantized")

try:
    embed_cython.quantize_embeddings(x, scales, out[1:])
except ValueError as error:
    print("refused:", error)
