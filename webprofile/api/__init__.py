"""Shared base of the REST API below `/api/v1/`.

The resources of an app are in its package `<app>/api/` (serializers, filters, views and `urls.py`),
written with Django REST framework, django-filter and drf-spectacular. List views derive from
`ApiListView`, actions on one row from `ApiViewSet` and all other views from `ApiView`. A view loads
a row by id, calls one service or selector, and returns a response. The differences from the
defaults of these libraries:

- If an access token lacks the scope `admin`, `request.user.is_staff` is False, so that selectors
  return only what a plain user may see. The attribute `scope` of a view is the scope that a token
  needs. By default it is "read" for GET and "write" for other methods.
- Serializers of request bodies derive from `fields.Body`, which rejects unknown fields, and use the
  strict types `fields.Integer`, `Text` and `Flag`: the string "1" is not accepted as a number.
  Serializers of query parameters derive from `fields.QueryParameters`, whose errors return 400.
- To report an error, raise `DomainError(code, field=..., status=...)` with a text in
  `webprofile/messages/errors.py`, or Http404 for a resource that does not exist or that the user
  may not access. `problems` converts both to RFC 9457 problem details.
  `extend_schema(responses={...} | problems({status: [codes]}))` lists the errors of an operation.
  `schema.Schema` adds those that every operation can return (401, 403, 404, 406, 413, 415, 422,
  429 ...).
- `manage.py spectacular --validate --fail-on-warn` must print nothing, and
  `webprofile/tests/test_api_fuzz.py` sends requests to every operation of the schema. The fixture
  `client` of the tests compares each response of the API with the schema.
"""
