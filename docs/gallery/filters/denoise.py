"""Denoise and keep edges

A Gaussian removes noise and edges alike. `denoise_bilateral` averages similar voxels only, and
`denoise_nl_means` voxels with similar surroundings. `denoise_tv_chambolle` flattens areas, and
`denoise_wiener` smooths where the variance is as small as the noise.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Grains with two grey levels, and noise of half their difference.
rng = np.random.default_rng(5)
shape = (10, 96, 128)
grains = ndimage.gaussian_filter(rng.normal(size=shape), (2, 4, 4)) > 0
clean = np.where(grains, 140, 100)
noisy = bv.open((clean + rng.normal(0, 20, shape)).clip(0, 255).astype("u1"))
bv.preview(noisy)

# %%
# Estimate the noise first. The number is lazy, and you can pass it to other functions.
noise = bv.estimate_sigma(noisy)
print(f"noise {float(noise):.1f}")
assert abs(float(noise) - 20) < 2

# %%
smooth = bv.gaussian_filter(noisy, 1.5)
bv.preview(smooth)

# %%
# `sigma_color` is the difference up to which intensities are considered similar, here slightly more
# than the noise.
bilateral = bv.denoise_bilateral(noisy, sigma_color=1.5 * noise, sigma_spatial=1.5, mode="mirror")
bv.preview(bilateral)

# %%
# Non-local means compare patches, here of 5 x 5 voxels in 5 slices, within 4 voxels.
means = bv.denoise_nl_means(noisy, patch_size=5, patch_distance=4, h=0.5 * noise, sigma=noise)
bv.preview(means)

# %%
# Total variation denoising gives flat areas. All iterations are computed in one sweep, and each
# adds a voxel to the halo.
flat = bv.denoise_tv_chambolle(noisy, weight=noise, max_num_iter=30)
bv.preview(flat)

# %%
# Diffusion along edges, as in ITK. A new mean gradient after each iteration would add a sweep.
diffused = bv.gradient_anisotropic_diffusion(
    noisy, conductance_scaling_update_interval=10, number_of_iterations=10
)
bv.preview(diffused)

# %%
# The Wiener filter matches scipy's `signal.wiener`. It is fast, but leaves noise near edges,
# including the borders of the volume, where it assumes zeros. `noise` is a variance.
wiener = bv.denoise_wiener(noisy, (3, 5, 5), noise=float(noise) ** 2)
bv.preview(wiener)

# %%
# The remaining error of each result, 2 slices from the ends.
errors = {}
results = {"gaussian": smooth, "bilateral": bilateral, "non-local": means, "total variation": flat}
results["diffusion"], results["wiener"] = diffused, wiener
for name, result in results.items():
    errors[name] = float(np.sqrt(np.square(np.asarray(result) - clean)[2:-2].mean()))
    print(f"{name:15} {errors[name]:.1f}")
assert errors["non-local"] < errors["gaussian"]
