"""Imports: create, show the state, rename and delete."""

import hashlib

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.selectors import current_user
from profiles.formats.detection import HEAD_BYTES
from profiles.imports import uploads
from profiles.imports.local_files import import_attempt, submit_import
from profiles.imports.progress import reading_of
from profiles.imports.uploads import FILES_LIMIT, FileToOpen
from profiles.models import ProfileUpload
from profiles.selectors import latest_results, visible_imports
from profiles.size_limits import most_bytes, size_limit
from profiles.views.common import task_or_404, upload_or_404
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage

PAGE_SIZE = 25


@login_required
@require_safe
def profile_list(request: HttpRequest) -> HttpResponse:
    """List the user's imports, with the form to create one and the latest results."""
    return _list_page(request)


@csrf_exempt  # the CSRF check reads the body, so the length is checked first
@require_http_methods(["GET", "POST"])
def collection(request: HttpRequest) -> HttpResponse:
    """POST: create an import from a form; scripts use the API."""
    if request.method == "GET":
        return redirect("profiles:list")
    return _create(request)


@login_required
def _create(request: HttpRequest) -> HttpResponse:
    limit = settings.OPENED_FORM_LIMIT_BYTES
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
        error = DomainError("opened_form_large", status=413, limit_mib=limit // 2**20)
        return _list_page(request, error)
    return _create_from_form(request)


@csrf_protect
def _create_from_form(request: HttpRequest) -> HttpResponse:
    """Create an import without JavaScript: the files pass through this site as temporary files."""
    uploaded_files = request.FILES.getlist("files")
    order = uploads.in_order_of_passes([str(file.name) for file in uploaded_files])
    files = [uploaded_files[place] for place in order]
    try:
        described = [_describe(file) for file in files]
        name = request.POST.get("name", "")
        upload = uploads.create_import(owner=current_user(request), files=described, name=name)
    except DomainError as error:
        return _list_page(request, error)
    try:
        for row, file in zip(upload.files.all(), files, strict=True):
            file.seek(0)
            storage.write_from(row.upload_key, file)
        submit_import(upload)
    except DomainError as error:
        uploads.delete_import(upload)
        return _list_page(request, error)
    return redirect("profiles:opened", upload.pk)


def _describe(file: UploadedFile) -> FileToOpen:
    md5 = hashlib.md5(usedforsecurity=False)
    head = b""
    for chunk in file.chunks():
        head = head or bytes(chunk[:HEAD_BYTES])
        md5.update(chunk)
    return FileToOpen(str(file.name), file.size or 0, md5.hexdigest(), head)


@login_required
@require_safe
def opened(request: HttpRequest, upload_id: int) -> HttpResponse:
    """Show the state of an import; an import that is ready redirects to its result page."""
    upload = upload_or_404(request, upload_id)
    if upload.state == ProfileUpload.State.READY:
        return redirect("profiles:detail", upload.profile.pk)
    context = {
        "upload": upload,
        "problem": _problem(upload),
        "may_retry": upload.problem in uploads.RETRIED,
        "progress": reading_of(upload),
    }
    return render(request, "profiles/opened.html", context)


@login_required
@require_safe
def status(request: HttpRequest, upload_id: int) -> HttpResponse:
    """Return the part of the page that changes during processing."""
    upload = upload_or_404(request, upload_id)
    context = {"upload": upload, "progress": reading_of(upload)}
    return render(request, "profiles/_opened_progress.html", context)


@login_required
@require_POST
def retry(request: HttpRequest, upload_id: int) -> HttpResponse:
    upload = upload_or_404(request, upload_id)
    uploads.retry_import(upload)
    return redirect("profiles:opened", upload.pk)


@login_required
@require_POST
def rename(request: HttpRequest, upload_id: int) -> HttpResponse:
    upload = upload_or_404(request, upload_id)
    uploads.rename_import(upload, request.POST.get("name", ""))
    messages.success(request, _("Renamed."))
    if upload.state == ProfileUpload.State.READY:
        return redirect("profiles:detail", upload.profile.pk)
    return redirect("profiles:opened", upload.pk)


@login_required
@require_POST
def delete(request: HttpRequest, upload_id: int) -> HttpResponse:
    """Delete an import with all its files."""
    upload = upload_or_404(request, upload_id)
    uploads.delete_import(upload, by=current_user(request))
    messages.success(request, _("“%(name)s” was deleted.") % {"name": upload.name})
    return redirect("profiles:list")


@login_required
@require_safe
def file(request: HttpRequest, upload_id: int, number: int) -> HttpResponse:
    """Redirect to storage for a file as it was uploaded."""
    upload = upload_or_404(request, upload_id)
    file = upload.files.filter(number=number).first()
    if file is None or upload.state == ProfileUpload.State.INITIATED:
        raise Http404
    return redirect(storage.presign_get(file.object_key, filename=file.name))


@login_required
@require_POST
def attempt_open_profile(request: HttpRequest, task_id: int, number: int) -> HttpResponse:
    """Import the recordings of an attempt without a result as a profile of the user."""
    attempt = get_object_or_404(task_or_404(request, task_id).attempts, number=number)
    return redirect(
        "profiles:opened", import_attempt(attempt, owner=current_user(request)).upload.pk
    )


def _list_page(request: HttpRequest, error: DomainError | None = None) -> HttpResponse:
    user = current_user(request)
    imports = visible_imports(user)
    page = Paginator(imports, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "uploads": [(upload, _problem(upload)) for upload in page.object_list],
        "results": latest_results(user),
        "files_limit": FILES_LIMIT,
        "size_limit": size_limit("profile"),
        "trace_limit": size_limit("trace"),
        "most_bytes": most_bytes(),
        "head_bytes": HEAD_BYTES,
        "error": word(error) if error else "",
    }
    return render(request, "profiles/list.html", context, status=error.status if error else 200)


def _problem(upload: ProfileUpload) -> str:
    """Return why the import failed and a suggested fix; empty if it did not fail."""
    if upload.state != ProfileUpload.State.FAILED:
        return ""
    # isolated, because a name must not change the text direction of the sentence
    return word(DomainError(f"opened_{upload.problem}", name=f"\u2068{upload.name}\u2069"))
