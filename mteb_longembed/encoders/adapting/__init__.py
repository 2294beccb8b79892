"""A model that is fitted on documents: corpus weights and whitening."""
