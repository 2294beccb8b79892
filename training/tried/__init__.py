"""Methods that were tried and are not part of the package: one strategy a file. training/tried.md has their numbers."""
