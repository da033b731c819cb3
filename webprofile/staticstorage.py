"""Static files storage with hashed names, also in imports between ES modules."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ManifestStorage(CompressedManifestStaticFilesStorage):
    support_js_module_import_aggregation = True
