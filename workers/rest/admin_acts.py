"""One act on several devices, for administrators."""

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AccessToken
from profiles.health import health_ask
from webprofile.administration.several import act_on_each
from webprofile.rest.schema import documented
from webprofile.rest.several import CameAnswer, came_response
from webprofile.rest.views import ApiView
from workers import services
from workers.named import workers_named
from workers.rest.admin_bodies import WorkerActsBody

#: the services of `WORKER_ACTS`
APPLY: dict[str, Callable[..., object]] = {
    "drain": services.worker_drain,
    "resume": services.worker_resume,
    "check": health_ask,
    "publish": services.worker_publish,
    "hide": services.worker_hide,
    "allow-scripts": services.worker_allow_scripts,
    "forbid-scripts": services.worker_forbid_scripts,
    "revoke": services.worker_revoke,
    "retire": services.worker_retire,
}


class HardwareActs(ApiView):
    """Several devices."""

    scope = AccessToken.Scope.ADMIN

    @documented(
        "Act on several devices",
        body=WorkerActsBody,
        answers={200: CameAnswer},
        errors={404: ["workers_unknown"]},
        operation_id="admin_workers_act_on_several",
    )
    def post(self, request: Request) -> Response:
        """Does the same as the act on one device, one after the other: a refusal stops no other,
        and the answer says of each what came of it. Repeating it changes nothing more.

        If one of them does not exist, nothing is done at all.
        """
        body = self.read(WorkerActsBody)
        workers = workers_named(body["workers"])
        return came_response(act_on_each(workers, APPLY[body["act"]], by=self.reader))
