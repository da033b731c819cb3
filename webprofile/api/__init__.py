"""What all resources of the API below `/api/v1/` share.

A resource is a package `<app>/rest/` with serializers, filters, views and `urls.py`, written with
Django REST framework, django-filter and drf-spectacular. Lists derive from `ApiListView`, actions
on one row from `ApiViewSet`, what is neither from `ApiView`. A view loads by id, calls one service
or selector, and answers. What differs from what these libraries do by themselves:

- `request.user` is a plain user where an access token lacks the scope `admin`: `is_staff` is False,
  and selectors show no more than that. `scope` of a view is what a token needs: "read" for GET and
  "write" for the rest unless the view says otherwise.
- Serializers of bodies derive from `fields.Body` (unknown fields are refused) and take the strict
  `fields.Integer`, `Text`, `Flag`: "1" is no number. Those of an address's parameters derive from
  `fields.Query`, whose errors are answered with 400.
- Errors: raise `DomainError(code, field=..., status=...)` with a text in
  `webprofile/messages/errors.py`, or Http404 for what does not exist for this user. `problems`
  makes RFC 9457 problem details of them.
  `extend_schema(responses={...} | problems({status: [codes]}))` names those that an operation may
  answer with; what all may answer (401, 403, 404, 406, 413, 415, 422, 429 ...) is added by
  `schema.Schema`.
- `manage.py spectacular --validate --fail-on-warn` must stay silent, and
  `webprofile/tests/test_api_fuzz.py` asks every operation of the schema by itself.
"""
