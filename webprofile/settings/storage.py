"""Object storage: where it is, who we are there, and how it keeps what it gets.

AWS: S3_ENDPOINT_URL empty, S3_ADDRESSING=virtual, and no keys where the machine has a role. MinIO:
both endpoints, S3_ADDRESSING=path.
"""

import environ

from webprofile.env import secret

env = environ.Env()

#: the server's own way to object storage, and the way that browsers and agents take; empty for
#: AWS's own address of the region
S3_ENDPOINT_URL = env.str("S3_ENDPOINT_URL", default="http://127.0.0.1:9000").rstrip("/")
S3_PUBLIC_ENDPOINT_URL = env.str("S3_PUBLIC_ENDPOINT_URL", default=S3_ENDPOINT_URL).rstrip("/")
S3_BUCKET = env.str("S3_BUCKET", default="megengine-web-profile")
S3_REGION = env.str("S3_REGION", default="us-east-1")
#: both empty for what boto3 finds by itself, such as the role of a machine or of a pod
S3_ACCESS_KEY_ID = secret("S3_ACCESS_KEY_ID", "")
S3_SECRET_ACCESS_KEY = secret("S3_SECRET_ACCESS_KEY", "")
#: where the bucket's name stands: path (http://host/bucket), virtual (http://bucket.host)
S3_ADDRESSING = env.str("S3_ADDRESSING", default="path")
#: how objects are encrypted where they lie: AES256, aws:kms, or empty for the bucket's own way,
#: which must not be aws:kms
S3_ENCRYPTION = env.str("S3_ENCRYPTION", default="")
#: whether large files may come in parts: their MD5s are known only where ETags are MD5s
S3_TAKES_PARTS = not S3_ENCRYPTION.startswith("aws:kms")
#: with aws:kms: the key, empty for AWS's own
S3_KMS_KEY_ID = env.str("S3_KMS_KEY_ID", default="")
#: a file of certificates to trust instead of the system's, for storage with one of one's own
S3_CA_BUNDLE = env.str("S3_CA_BUNDLE", default="")


def public_origin() -> str:
    """Return the origin of object storage for browsers, in the form of a CSP source."""
    address = S3_PUBLIC_ENDPOINT_URL or f"https://s3.{S3_REGION}.amazonaws.com"
    if S3_ADDRESSING != "virtual":
        return address
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{S3_BUCKET}.{rest}"
