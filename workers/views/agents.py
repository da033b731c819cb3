"""HTTP endpoints for agents: enrolment, token check, and heartbeats during a measurement."""

import json
import time

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe
from pydantic import ValidationError

from agent.protocol.messages import MAX_FRAME_BYTES, PROTOCOL_VERSION, Heartbeat
from tasks.dispatch.gateway import on_heartbeats
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.realtime.consumers import agent_pace
from workers.tokens import bearer_of, check_token, redeem_code

#: a heartbeat by HTTP takes as long as so many frames, since it is a request and stored alone
HTTP_FRAMES = 20


@csrf_exempt  # no cookie is involved: the code itself is the credential
@require_POST
def agent_enrol(request: HttpRequest) -> JsonResponse:
    """Exchange {"code"} for {"worker", "token"}."""
    try:
        code = json.loads(request.body)["code"]
        worker, token = redeem_code(str(code))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _refuse(DomainError("bad_request", status=400))
    except DomainError as error:
        return _refuse(error)
    return JsonResponse({"worker": worker.name, "token": token})


@require_safe
def agent_check(request: HttpRequest) -> JsonResponse:
    """Tell an agent whether its token is valid, and the server's time."""
    try:
        worker = check_token(bearer_of(request.headers.get("Authorization", "")))
    except DomainError as error:
        return _refuse(error)
    return JsonResponse(
        {"worker": worker.name, "server_time": time.time(), "protocol": PROTOCOL_VERSION}
    )


@csrf_exempt  # no cookie is involved: the token is the credential
@require_POST
def agent_heartbeat(request: HttpRequest) -> JsonResponse:
    """Store a heartbeat of an agent that does not use its socket while it measures.

    The body is {"running": [attempt, ...], "sent_at": seconds}. The response says whether there are
    orders for the agent; it gets them by a heartbeat on its socket.
    """
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if not (length.isascii() and length.isdigit()):
        return _refuse(DomainError("bad_request", status=400))
    if len(length) > 9 or int(length) > MAX_FRAME_BYTES:
        return _refuse(DomainError("bad_request", status=413))
    try:
        worker = check_token(bearer_of(request.headers.get("Authorization", "")))
        if not agent_pace(worker.pk).has_room(HTTP_FRAMES):
            return _refuse(DomainError("throttled", status=429, wait_s=1))
        if len(request.body) > MAX_FRAME_BYTES:  # a body in chunks has no Content-Length
            return _refuse(DomainError("bad_request", status=413))
        message = Heartbeat.model_validate_json(request.body)
    except ValidationError:
        return _refuse(DomainError("bad_request", status=400))
    except DomainError as error:
        return _refuse(error)
    orders = on_heartbeats({worker.pk: message.running}).get(worker.pk)
    return JsonResponse({"server_time": time.time(), "has_orders": bool(orders)})


def _refuse(error: DomainError) -> JsonResponse:
    answer = {"error": error.code, "message": word(error), "field": error.field}
    return JsonResponse(answer, status=error.status)
