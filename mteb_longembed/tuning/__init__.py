"""Position tuning: train only the position rows that an extension added. This room may import `encoders`."""
