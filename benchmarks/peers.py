"""What takes the peers more than one call."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def ball(radius: int) -> Array:
    """As ``bv.ball``: without importing it, which would count as the peer's memory."""
    z, y, x = np.ogrid[(slice(-radius, radius + 1),) * 3]
    return z * z + y * y + x * x <= radius * radius


def of_sitk(operation: Any, a: Array, *parameters: Any) -> Array:
    """One thread; numpy's memory is copied into an image."""
    import SimpleITK

    SimpleITK.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    image = operation(SimpleITK.GetImageFromArray(a), *parameters)
    return SimpleITK.GetArrayViewFromImage(image)


def gaussian_by_opencv(a: Array, sigma: float) -> Array:
    """Slice by slice along y and x, then along z with slices as rows of one image."""
    import cv2

    cv2.setNumThreads(1)
    weights = cv2.getGaussianKernel(2 * int(4 * sigma + 0.5) + 1, sigma, cv2.CV_32F)
    how = {"borderType": cv2.BORDER_REFLECT}
    flat = np.empty(a.shape, np.float32)
    for plane, out in zip(a, flat, strict=True):
        cv2.sepFilter2D(plane, cv2.CV_32F, weights, weights, out, **how)
    one = np.ones(1, np.float32)
    return cv2.sepFilter2D(flat.reshape(len(a), -1), cv2.CV_32F, one, weights, **how)


def affine_by_opencv(a: Array, matrix: Array, offset: Array) -> Array:
    """Slice by slice, for a matrix that keeps slices."""
    import cv2

    cv2.setNumThreads(1)
    from_result = np.column_stack([matrix[:0:-1, :0:-1], offset[:0:-1]])
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    out = np.empty_like(a)
    for plane, turned in zip(a, out, strict=True):
        cv2.warpAffine(plane, from_result, plane.shape[::-1], turned, how)
    return out


def watershed_by_sitk(a: Array, markers: Array) -> Array:
    import SimpleITK

    marked = SimpleITK.GetImageFromArray(markers)
    return of_sitk(SimpleITK.MorphologicalWatershedFromMarkers, a, marked, False)


def hessian_eigenvalues(a: Array, sigma: float) -> Array:
    from skimage.feature import hessian_matrix, hessian_matrix_eigvals

    return hessian_matrix_eigvals(hessian_matrix(a, sigma, use_gaussian_derivatives=True))


def structure_tensor_eigenvalues(a: Array, sigma: float) -> Array:
    from skimage import feature

    return feature.structure_tensor_eigenvalues(feature.structure_tensor(a, sigma))


def chain(v: Any, sigma: float) -> Any:
    """Where the gradient of the smoothed volume is above its own Otsu value, opened: one bool volume."""
    import beam_volumes as bv

    gradient = bv.generic_gradient_magnitude(bv.gaussian_filter(v, sigma), bv.sobel)
    return bv.binary_opening(gradient > bv.threshold_otsu(gradient))


def chain_of_scipy(a: Array, sigma: float) -> Array:
    from scipy import ndimage
    from skimage.filters import threshold_otsu

    smooth = ndimage.gaussian_filter(a, sigma, output=np.float32)
    gradient = ndimage.generic_gradient_magnitude(smooth, ndimage.sobel)
    return ndimage.binary_opening(gradient > threshold_otsu(gradient))


def chain_of_dask(d: Any, sigma: float) -> Any:
    import dask.array as da
    from dask_image import ndfilters, ndmorph
    from skimage.filters import threshold_otsu

    smooth = ndfilters.gaussian_filter(d.astype(np.float32), sigma)
    gradient = da.sqrt(sum(ndfilters.sobel(smooth, axis) ** 2 for axis in range(3)))
    low, high = da.compute(gradient.min(), gradient.max())
    counts, edges = da.histogram(gradient, bins=256, range=(low, high))
    level = threshold_otsu(hist=(counts.compute(), (edges[1:] + edges[:-1]) / 2))
    return ndmorph.binary_opening(gradient > level)
