"""Quantize three frames with the module, and compare with pyquant.quantize."""

import embed_c
import numpy as np

import pyquant as pq

frames = np.random.default_rng(1).normal(size=(3, 480, 640)).astype(np.float32)
out = np.empty(frames.shape, np.uint8)
embed_c.quantize_frames(frames, 0.02, 128, out)
assert np.array_equal(out, pq.quantize(frames, 0.02, np.uint8(128)))
print("embed_c: three frames quantized")

try:
    embed_c.quantize_frames(frames[0, 1:], 0.02, 128, out)
except ValueError as error:
    print("refused:", error)
