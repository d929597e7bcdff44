"""Make a release: sdist and wheel, SBOM, container image, provenance and checksums (docs/how-to/release.md)."""
