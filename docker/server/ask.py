"""Health check of this container's web server: send a request as the proxy does.

Exit codes: 0 if it responds with 200, otherwise 1.
"""

import http.client
import os
import sys
from urllib.parse import urlsplit

_TIMEOUT_S = 4.0


def main() -> int:
    site = urlsplit(os.environ.get("SITE_URL", "http://127.0.0.1:8000"))
    # the site redirects plain HTTP; the host name of SITE_URL is always allowed
    headers = {"Host": site.netloc, "X-Forwarded-Proto": site.scheme}
    port = int(os.environ.get("WEB_PORT", "8000"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz", headers=headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"no answer: {error}\n")
        return 1
    finally:
        connection.close()
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
