"""Pure values: what is asked for (pods, nodes), what a kernel can hold (knobs, paths), what was seen (readings)."""
