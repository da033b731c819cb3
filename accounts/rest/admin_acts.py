"""One act on several users, for administrators."""

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from accounts import services
from accounts.models import AccessToken
from accounts.rest.admin_bodies import UserActsBody
from accounts.sessions import user_end_sessions
from accounts.system import people
from webprofile.administration.several import act_on_each
from webprofile.rest.schema import documented
from webprofile.rest.several import CameAnswer, came_response
from webprofile.rest.views import ApiView
from workers.named import users_named

#: the services of `USER_ACTS`
APPLY: dict[str, Callable[..., object]] = {
    "promote": services.user_promote,
    "demote": services.user_demote,
    "remove-second-factor": services.user_remove_second_factor,
    "deactivate": services.user_deactivate,
    "reactivate": services.user_reactivate,
    "end-sessions": user_end_sessions,
}


class UserActs(ApiView):
    """Several users."""

    scope = AccessToken.Scope.ADMIN

    @documented(
        "Act on several users",
        body=UserActsBody,
        answers={200: CameAnswer},
        errors={404: ["users_unknown"]},
        operation_id="admin_users_act_on_several",
    )
    def post(self, request: Request) -> Response:
        """Does the same as the act on one user, one after the other: a refusal stops no other, and
        the answer says of each what came of it. Repeating it changes nothing more.

        If one of them does not exist, nothing is done at all.
        """
        body = self.read(UserActsBody)
        users = users_named(body["users"], among=people())
        return came_response(act_on_each(users, APPLY[body["act"]], by=self.reader))
