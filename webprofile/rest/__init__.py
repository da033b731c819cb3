"""The ground of the API below `/api/v1/`: what every resource shares.

A resource is a package or module `<app>/rest/` with serializers, views and `urls.py`, which
`webprofile/rest/urls.py` includes. It loads by id, calls one service or selector, and answers::

    class PoolList(ApiListView):
        \"\"\"Pools of devices.\"\"\"

        serializer_class = PoolAnswer            # a ModelSerializer, every field with help_text
        filterset_class = PoolFilters            # optional, of the filters of `filtering`

        def rows(self) -> QuerySet[Pool]:        # those that exist for the reader
            return pools_visible_to(self.reader)

        @documented("List pools", answers={200: PoolAnswer(many=True)})
        def get(self, request: Request) -> Response:
            return self.list(request)            # cursor pages: next, previous, results

        @documented("Make a pool", body=PoolBody, answers={201: PoolAnswer},
                    errors={409: ["pool_taken"]})
        def post(self, request: Request) -> Response:
            wanted = self.read(PoolBody)         # validated data; 422 names every bad field
            pool = services.pool_create(by=self.reader, **wanted)
            return Response(PoolAnswer(pool).data, status=201)

- `scope`: what a token must be allowed to: "read" for GET and "write" for the rest unless the view
  says otherwise. `permission_classes = (AllowAny,)` asks nobody to log in, `(NoAccessToken,)`
  refuses access tokens. `self.reader` is the user who asks. A token without the scope `admin` makes
  its user a plain one: `reader.is_staff` is False, and all selectors that go by it show no more
  than that.
- Bodies derive from `fields.Body` (unknown fields are refused) and take the strict
  `fields.Integer`, `Text`, `Flag`: "1" is no number. A question in the address derives from
  `fields.Query`; the view reads it by `self.query(PoolQuery)` and documents it by
  `documented(..., query=PoolQuery)`.
- Errors: raise `DomainError(code, field=..., status=...)` with a text in `webprofile/wording.py`,
  or Http404 for what does not exist for this reader (`get_object_or_404`). `problems` makes RFC
  9457 problem details of them. `documented(errors={status: [codes]})` names those that an
  operation may answer with; what all may answer (401, 403, 404, 406, 413, 415, 422, 429 ...) is
  added by `schema.Schema`.
- `manage.py spectacular --validate --fail-on-warn` must stay silent, and
  `webprofile/tests/test_api_fuzz.py` asks every operation of the schema by itself.
"""
