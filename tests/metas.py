"""The names and revisions of results by mteb's metadata."""

from mteb.models.model_meta import ModelMeta

from mteb_longembed.names import Identity


def full_name(meta: ModelMeta) -> str:
    """Return the name of results."""
    return Identity(str(meta.name), meta.revision, meta.experiment_kwargs).name


def full_revision(meta: ModelMeta) -> str:
    """Return the revision of results."""
    return Identity(str(meta.name), meta.revision, meta.experiment_kwargs).result_revision
