"""Fourier transforms, and deconvolution and convolution in blocks."""
