"""URL routes of the pages of profiles below `/profiles/`."""

from django.urls import path

from profiles.views import (
    compare,
    exports,
    imports,
    result,
    viewers,
)

app_name = "profiles"
urlpatterns = [
    path("", imports.profile_list, name="list"),
    path("opened/", imports.collection, name="opened-list"),
    path("opened/<int:upload_id>/", imports.opened, name="opened"),
    path("opened/<int:upload_id>/status/", imports.status, name="opened-status"),
    path("opened/<int:upload_id>/retry/", imports.retry, name="opened-retry"),
    path("opened/<int:upload_id>/rename/", imports.rename, name="opened-rename"),
    path("opened/<int:upload_id>/delete/", imports.delete, name="opened-delete"),
    path("opened/<int:upload_id>/files/<int:number>/", imports.file, name="opened-file"),
    path("exports/", exports.about, name="exports"),
    path("guide/", exports.guide, name="guide"),
    path("compare/", compare.compare, name="compare"),
    path("<int:profile_id>/", result.imported, name="detail"),
    path("<int:profile_id>/export/original/<int:number>/", exports.original, name="original"),
    path("<int:profile_id>/export/<str:name>/", exports.export, name="export"),
    path("<int:profile_id>/operators/<int:row>/", result.operator, name="operator"),
    path("<int:profile_id>/graph/page/", viewers.graph, name="graph"),
    path("<int:profile_id>/trace/", viewers.timeline, name="trace"),
    path("<int:profile_id>/memory-flow/tensors/", result.tensors, name="memory-flow-tensors"),
    path("<int:profile_id>/memory-flow/image.svg", result.image, name="memory-flow-image"),
    # after all others, whose names it would accept
    path("<int:profile_id>/<slug:view>/", result.imported, name="view"),
]
