"""What the pictures of a profile are drawn from: columns that the result page's scripts draw."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.decorators import method_decorator
from django.utils.http import quote_etag
from django.utils.translation import get_language
from django.views.decorators.gzip import gzip_page
from rest_framework.request import Request

from profiles.analysis.data import ProfileData
from profiles.derived.loading import profile_data, run_data
from profiles.models import Profile
from profiles.rest import picture_answers as pictures
from profiles.rest.access import NOT_READY, ResultView, written
from profiles.rest.questions import MemoryQuery, TimelineQuery
from profiles.shown import picture_data
from profiles.shown.roofs import roofs_of
from profiles.shown.static_memory_view import KIND as STATIC_MEMORY
from profiles.shown.static_memory_view import static_memory_data
from webprofile.errors import DomainError
from webprofile.rest.schema import documented

#: raised when the JSON of an unchanged profile changes
FORMAT = 2


@method_decorator(gzip_page, name="dispatch")
class PictureView(ResultView):
    """A view of what one picture is drawn from, which a client keeps with its `ETag`."""

    def drawn(
        self,
        request: Request,
        profile_id: int,
        build: Callable[[ProfileData], dict[str, Any]],
        question: object = "",
        *,
        load: Callable[[Profile], ProfileData] = profile_data,
    ) -> HttpResponseBase:
        """The JSON of `build`, or 304 if it is what the client has.

        question: what the answer depends on beside the profile and the language

        Raises Http404; whatever `load` raises.
        """
        profile = self.profile(profile_id)
        stamp = (FORMAT, profile.pk, profile.built_at.timestamp(), get_language(), question)
        etag = quote_etag(hashlib.sha256(repr(stamp).encode(errors="replace")).hexdigest()[:32])
        response = get_conditional_response(request, etag=etag)
        if response is None:
            response = written(build(load(profile)))
            response["ETag"] = etag
        response["Cache-Control"] = "private, no-cache"
        return response


class PictureOperators(PictureView):
    """What all pictures share."""

    @documented(
        "Data of all pictures",
        answers={200: pictures.OperatorsPicture, 304: None},
        errors=NOT_READY,
        operation_id="profiles_picture_operators",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Names, types and times of all operators, by row."""
        return self.drawn(request, profile_id, picture_data.operators_data)


class PictureTimeline(PictureView):
    """When operators ran."""

    @documented(
        "Data of the timeline",
        answers={200: pictures.TimelinePicture, 304: None},
        query=TimelineQuery,
        errors=NOT_READY | {422: ["window_bad"]},
        operation_id="profiles_picture_timeline",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Bars in lanes, at most 8,000; what is too narrow for that is merged."""
        window = _window(self.asked(TimelineQuery))
        return self.drawn(
            request, profile_id, lambda data: picture_data.timeline_data(data, window), window
        )


class PictureTypes(PictureView):
    """Time by type."""

    @documented(
        "Data of types",
        answers={200: pictures.TypesPicture, 304: None},
        errors=NOT_READY,
        operation_id="profiles_picture_types",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by operator type, that with most first."""
        return self.drawn(request, profile_id, picture_data.types_data)


class PictureScopes(PictureView):
    """Time by scope."""

    @documented(
        "Data of scopes",
        answers={200: pictures.ScopesPicture, 304: None},
        errors=NOT_READY,
        operation_id="profiles_picture_scopes",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by scope of names, as a tree whose leaves are operators."""
        return self.drawn(request, profile_id, picture_data.scopes_data)


class PictureRoofline(PictureView):
    """Speed against intensity."""

    @documented(
        "Data of the roofline",
        answers={200: pictures.RooflinePicture, 304: None},
        errors=NOT_READY,
        operation_id="profiles_picture_roofline",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """FLOP/s against FLOP/byte, and the limits of the hardware where they were measured."""
        profile = self.profile(profile_id)
        measured = [roofs_of(profile, on_gpu=on_gpu) for on_gpu in (False, True)]
        return self.drawn(
            request,
            profile_id,
            lambda data: picture_data.roofline_data(data, measured[bool(data.on_gpu.any())]),
            measured,
        )


class PictureMemory(PictureView):
    """Memory over the order of execution."""

    @documented(
        "Data of memory",
        answers={200: pictures.MemoryPicture, 304: None},
        query=MemoryQuery,
        errors=NOT_READY,
        operation_id="profiles_picture_memory",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Bytes taken while each operator runs, as the memory plan has it."""
        device = self.asked(MemoryQuery)["device"]
        return self.drawn(
            request, profile_id, lambda data: picture_data.memory_data(data, device), device
        )


class PictureCumulative(PictureView):
    """The share of the slowest."""

    @documented(
        "Data of the running share",
        answers={200: pictures.CumulativePicture, 304: None},
        errors=NOT_READY,
        operation_id="profiles_picture_cumulative",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """The running share of the slowest operators."""
        return self.drawn(request, profile_id, picture_data.cumulative_data)


class PictureStaticMemory(PictureView):
    """The memory plan of a static graph, as a picture."""

    @documented(
        "Data of static memory",
        answers={200: pictures.StaticMemoryPicture, 304: None},
        errors={409: ["profile_outdated", "profile_damaged", "static_memory_none"]},
        operation_id="profiles_picture_static_memory",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Addresses and lives of the tensors of a memory plan."""
        return self.drawn(request, profile_id, static_memory_data, load=_with_plan)


def _with_plan(profile: Profile) -> ProfileData:
    """Raises DomainError static_memory_none, and what `run_data` raises."""
    data = run_data(profile)
    if STATIC_MEMORY not in data.beside:
        raise DomainError("static_memory_none", status=409)
    return data


def _window(asked: Mapping[str, Any]) -> tuple[float, float] | None:
    ends = asked.get("from"), asked.get("to")
    if ends == (None, None):
        return None
    low, high = ends
    if low is None or high is None or low >= high:
        raise DomainError("window_bad", field="from", status=422)
    return low, high
