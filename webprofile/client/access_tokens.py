"""Create and revoke access tokens of the site."""

import socket
from collections.abc import Callable

from webprofile.client.api import Api
from webprofile.client.errors import ProblemError
from webprofile.client.login_file import Login

USUAL_DAYS = 90


def new_token(site: str, email: str, password: str, code: Callable[[], str], *, days: int) -> str:
    """Create an access token for this machine with a JWT pair, which is revoked afterwards.

    code: returns the code of the authenticator app; called if the account needs one

    Raises ProblemError, with the code `code_needed` if `code` returns nothing.
    """
    body = {"email": email, "password": password}
    with Api(Login(site, "")) as api:
        try:
            pair = api.post("auth/token/", body)
        except ProblemError as error:
            if error.code != "code_needed" or not (number := code()):
                raise
            pair = api.post("auth/token/", {**body, "code": number})
    with Api(Login(site, pair["access"])) as api:
        token = {
            "name": f"webprofile on {socket.gethostname()}"[:100],
            "scopes": ["read", "write"],
            "days": days,
        }
        try:
            return str(api.post("access-tokens/", token)["secret"])
        finally:
            api.post("auth/token/revoke/", {"refresh": pair["refresh"]}, repeatable=True)


def revoke(api: Api) -> None:
    """Revoke the token that is used."""
    api.delete("access-tokens/current/")
