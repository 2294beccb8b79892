"""mteb-longembed."""
