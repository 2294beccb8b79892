"""Position tuning: the rows that an extension added are trained, everything else stays. May import `encoders`."""
