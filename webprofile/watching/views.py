"""What proxies, orchestrators and Prometheus ask."""

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webprofile.watching import exposition
from webprofile.watching.access import may_read_metrics
from webprofile.watching.draining import is_draining
from webprofile.watching.ready import readiness
from webprofile.watching.rows import rows_registry


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 if requests should come here, else 503 with the names of what is missing.

    `?own` leaves out what all servers share: a proxy that chooses among them would pass over every
    one when Redis or storage is away, and most of the site works without.
    """
    if is_draining():
        missing = ["draining"]
    elif "own" in request.GET:
        missing = []
    else:
        missing = readiness.missing()
    return JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    if not may_read_metrics(request):
        raise Http404
    text = exposition.text_of(exposition.registry(), exposition.build_registry(), rows_registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)
