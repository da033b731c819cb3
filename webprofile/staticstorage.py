"""Static files storage with hashed names, also in imports between ES modules."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ManifestStorage(CompressedManifestStaticFilesStorage):
    support_js_module_import_aggregation = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # only our scripts are modules; a search for imports in those of packages takes seconds
        self._patterns["js/*.js"] = self._patterns.pop("*.js")
