"""From a profile to an image: packages, container images, kernels."""
