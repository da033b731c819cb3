"""Hashed static files whose ES modules import each other by their hashed names."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ManifestStorage(CompressedManifestStaticFilesStorage):
    support_js_module_import_aggregation = True
