"""Serializers of presigned uploads, as one request or in parts."""

from rest_framework import serializers


class PartAnswer(serializers.Serializer):
    """The presigned URL of one part; send exactly its bytes with `PUT`."""

    number = serializers.IntegerField(help_text="Which part.")
    url = serializers.CharField(help_text="Presigned address, for some minutes.")
    headers = serializers.DictField(
        child=serializers.CharField(), help_text="Headers that the request must carry."
    )


class PartsAnswer(serializers.Serializer):
    """The state of a file that is uploaded in parts."""

    upload = serializers.IntegerField(
        help_text="Number of the upload attempt; parts of earlier attempts are lost."
    )
    part_bytes = serializers.IntegerField(help_text="Size of each part but the last, bytes.")
    count = serializers.IntegerField(help_text="Number of parts; they are numbered from 1.")
    done = serializers.DictField(
        child=serializers.CharField(), help_text="MD5s of the parts that arrived, by number."
    )
    addresses = PartAnswer(
        many=True, help_text="URLs of the first missing parts; request those of the others."
    )


class UploadAnswer(serializers.Serializer):
    """The presigned URL of one file (`PUT` with exactly its bytes), or the state of its parts."""

    file = serializers.IntegerField(help_text="Number of the file.")
    name = serializers.CharField(help_text="Its name.")
    url = serializers.CharField(
        help_text="Presigned address, for some minutes; empty for a file in parts."
    )
    headers = serializers.DictField(
        child=serializers.CharField(), help_text="Headers that the request must carry."
    )
    parts = PartsAnswer(allow_null=True, help_text="Of a file in parts, else null.")


class PartAddressesAnswer(serializers.Serializer):
    """Presigned URLs of parts."""

    parts = PartAnswer(many=True, help_text="Requested parts, in the order of the request.")


class JoinedAnswer(serializers.Serializer):
    """A file whose parts have been joined."""

    md5 = serializers.CharField(
        help_text="The MD5 of its parts' MD5s, then `-` and how many parts there are."
    )


class UploadsAnswer(serializers.Serializer):
    """Presigned URLs of files."""

    uploads = UploadAnswer(many=True, help_text="The files that storage does not hold yet.")
