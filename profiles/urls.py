"""URL routes of the pages of profiles below `/profiles/`, and of share links below `/s/`."""

from django.urls import path

from profiles.api.urls import CHARTS
from profiles.views import compare, exports, imports, result, shares, viewers
from profiles.views.common import for_owner
from profiles.views.shares import for_reader_of

app_name = "profiles"
#: pages and fragments that a share link shows, too
_PAGES = (
    ("operator", "operators/<int:row>/", result.operator),
    ("graph", "graph/page/", viewers.graph),
    ("trace", "trace/", viewers.timeline),
    ("memory-flow-tensors", "memory-flow/tensors/", result.tensors),
    ("memory-flow-image", "memory-flow/image.svg", result.image),
)
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
    path("shares/", shares.shares, name="shares"),
    path("shares/<int:share_id>/revoke/", shares.share_revoke, name="share-revoke"),
    path("compare/", compare.compare, name="compare"),
    path("<int:profile_id>/", result.imported, name="detail"),
    path("<int:profile_id>/export/original/<int:number>/", exports.original, name="original"),
    path("<int:profile_id>/export/<str:name>/", exports.export, name="export"),
    *(
        path(f"<int:profile_id>/{route}", for_owner(page), name=name)
        for name, route, page in _PAGES
    ),
    # after all others, whose names it would accept
    path("<int:profile_id>/<slug:view>/", result.imported, name="view"),
]

#: below `/s/<token>/`; pages and data have the same routes as below `/profiles/N/` and
#: `/api/v1/profiles/N/` (`views.common.ResultLinks`)
shared_urlpatterns = [
    path("", shares.shared_page, name="result"),
    *(path(route, for_reader_of(page), name=name) for name, route, page in _PAGES),
    path("export/original/<int:number>/", shares.shared_original, name="original"),
    path("model/", shares.shared_model, name="model"),
    path("files/<int:file_id>/", shares.shared_file, name="file"),
    *(
        path(f"data/charts/{name}/", shares.shared_chart(name), name=f"chart-{name}")
        for name in CHARTS
        # it is about another task
        if name != "baseline"
    ),
    path("data/graph/netron/", shares.shared_graph_data, name="graph-netron"),
    path("data/raw/<int:number>/", shares.shared_original, name="raw"),
    path("data/trace/cut/", shares.shared_excerpt, name="trace-cut"),
    path("data/compare/graph/", shares.shared_compared_graph, name="compare-graph"),
    path("data/compare/timelines/", shares.shared_compared_timelines, name="compare-timelines"),
    # after all others, whose names it would accept
    path("<slug:view>/", shares.shared_page, name="view"),
]
