"""Make a release: sdist and wheel built twice, SBOM, container image, provenance and checksums (docs/how-to/release.md)."""
