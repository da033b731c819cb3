"""Settings of object storage: endpoints, credentials, encryption.

AWS: S3_ENDPOINT_URL empty, S3_ADDRESSING=virtual, and no keys where the machine has a role. MinIO:
both endpoints, S3_ADDRESSING=path.
"""

import environ

from webprofile.env import secret

env = environ.Env()

#: endpoints of object storage for the server, and for browsers and agents; empty for
#: the AWS endpoint of the region
S3_ENDPOINT_URL = env.str("S3_ENDPOINT_URL", default="http://127.0.0.1:9000").rstrip("/")
S3_PUBLIC_ENDPOINT_URL = env.str("S3_PUBLIC_ENDPOINT_URL", default=S3_ENDPOINT_URL).rstrip("/")
S3_BUCKET = env.str("S3_BUCKET", default="megengine-web-profile")
S3_REGION = env.str("S3_REGION", default="us-east-1")
#: both empty to use the credentials that boto3 finds, such as the role of a machine or pod
S3_ACCESS_KEY_ID = secret("S3_ACCESS_KEY_ID", "")
S3_SECRET_ACCESS_KEY = secret("S3_SECRET_ACCESS_KEY", "")
#: addressing style of the bucket: path (http://host/bucket) or virtual (http://bucket.host)
S3_ADDRESSING = env.str("S3_ADDRESSING", default="path")
#: server-side encryption: AES256, aws:kms, or empty for the default of the bucket,
#: which must not be aws:kms
S3_ENCRYPTION = env.str("S3_ENCRYPTION", default="")
#: allow multipart uploads, whose checksums can only be verified if ETags are MD5s
S3_TAKES_PARTS = not S3_ENCRYPTION.startswith("aws:kms")
#: key for aws:kms; empty for the key managed by AWS
S3_KMS_KEY_ID = env.str("S3_KMS_KEY_ID", default="")
#: file of CA certificates that replace those of the system
S3_CA_BUNDLE = env.str("S3_CA_BUNDLE", default="")


def public_origin() -> str:
    """Return the origin of object storage for browsers, in the form of a CSP source."""
    address = S3_PUBLIC_ENDPOINT_URL or f"https://s3.{S3_REGION}.amazonaws.com"
    if S3_ADDRESSING != "virtual":
        return address
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{S3_BUCKET}.{rest}"
