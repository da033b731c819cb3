"""URL routes of the pages of profiles below `/profiles/`."""

from django.urls import path

from profiles.views import (
    compare,
    exports,
    memory_flow,
    opened,
    operators,
    result,
    viewers,
)

app_name = "profiles"
urlpatterns = [
    path("", opened.profile_list, name="list"),
    path("opened/", opened.collection, name="opened-list"),
    path("opened/<int:upload_id>/", opened.opened, name="opened"),
    path("opened/<int:upload_id>/status/", opened.status, name="opened-status"),
    path("opened/<int:upload_id>/retry/", opened.retry, name="opened-retry"),
    path("opened/<int:upload_id>/rename/", opened.rename, name="opened-rename"),
    path("opened/<int:upload_id>/delete/", opened.delete, name="opened-delete"),
    path("opened/<int:upload_id>/files/<int:number>/", opened.file, name="opened-file"),
    path("exports/", exports.about, name="exports"),
    path("guide/", exports.guide, name="guide"),
    path("compare/", compare.compare, name="compare"),
    path("<int:profile_id>/", result.detail, name="detail"),
    path("<int:profile_id>/export/original/<int:number>/", exports.original, name="original"),
    path("<int:profile_id>/export/<str:name>/", exports.export, name="export"),
    path("<int:profile_id>/operators/", operators.operators, name="operators"),
    path("<int:profile_id>/operators/<int:row>/", operators.operator, name="operator"),
    path("<int:profile_id>/graph/", viewers.graph, name="graph"),
    path("<int:profile_id>/trace/", viewers.timeline, name="trace"),
    path("<int:profile_id>/memory-flow/tensors/", memory_flow.tensors, name="memory-flow-tensors"),
    path("<int:profile_id>/memory-flow/image.svg", memory_flow.image, name="memory-flow-image"),
]
