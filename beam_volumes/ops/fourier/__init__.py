"""Operations by Fourier transforms: deconvolution and convolution in blocks."""
