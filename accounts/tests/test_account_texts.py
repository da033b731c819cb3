"""Pages, messages and mails of libraries use the site's texts, in both languages."""

import re
from pathlib import Path

import allauth
import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from accounts.tests.make import (
    ACCOUNT_PAGES,
    ANONYMOUS_PAGES,
    NEW_PASSWORD,
    PASSWORD,
    make_verified_user,
    totp_code,
)
from profiles.models import ProfileUpload
from tasks.tests.make import make_user
from workers.models import Pool

pytestmark = pytest.mark.django_db

ADMIN = "/admin/workers/pool/"
#: of what this site does not offer: codes by mail or phone, passkeys for registering, trust ...
NOT_OFFERED = re.compile(
    "phone|confirm_.*code|login_code|reset_code|by_passkey|request_login_code|trust|login_script"
    "|webauthn/signup_form|email_change.html|verified_email_required|signup_closed|confirm_code"
)
#: included only by pages that are the site's own
NOT_INCLUDED = {
    "account/snippets/already_logged_in.html", "account/snippets/warn_no_email.html",
    "socialaccount/snippets/provider_list.html", "socialaccount/snippets/login.html",
    "account/email/email_confirm_message.txt",
}  # fmt: skip
#: their texts are like those of the site
UNCHANGED = {"mfa/webauthn/reauthenticate.html", "socialaccount/login_redirect.html"}


def page_messages(response) -> list[str]:
    """Return the messages on a page of the site or of the admin site."""
    notes = r'<p class="notice[^>]*>(.*?)</p>|<li class="success">(.*?)</li>'
    return [re.sub("<[^>]*>", "", "".join(groups)) for groups in re.findall(notes, response.text)]


def log_in(client, user, **more):
    form = {"login": user.email, "password": PASSWORD} | more
    return client.post(reverse("account_login"), form, follow=True)


def test_each_visible_template_of_allauth_is_overridden():
    allauth_templates = Path(allauth.__file__).parent / "templates"
    site_templates = settings.BASE_DIR / "templates"
    missing = {
        name
        for app in ("account", "mfa", "socialaccount", "usersessions")
        for path in (allauth_templates / app).rglob("*.*")
        if re.search(r"\{% (blocktrans|trans)", path.read_text())
        and not (site_templates / (name := str(path.relative_to(allauth_templates)))).exists()
        and not NOT_OFFERED.search(name)
    }
    # titles of pages that have their own
    bases = {name for name in missing if name.endswith("/base.html")}
    assert missing - bases - NOT_INCLUDED == UNCHANGED


@pytest.mark.parametrize("name", [*ACCOUNT_PAGES, *ANONYMOUS_PAGES])
def test_titles_buttons_and_labels_are_sentences(name, settings):
    settings.HAS_MAIL_SERVER = True
    client = Client()
    if name in ACCOUNT_PAGES:
        alice = make_user()
        TOTP.activate(alice, generate_totp_secret())
        code, *_ = RecoveryCodes.activate(alice).get_unused_codes()
        client.force_login(alice)
        if name != "account_reauthenticate":
            client.post(reverse("mfa_reauthenticate"), {"code": code})
        if name == "mfa_activate_totp":
            Authenticator.objects.all().delete()
    text = client.get(reverse(name)).text.split("<main", 1)[1].split("</main>")[0]
    parts = re.findall(r"<(title|h1|h2|button|label|a)\b[^>]*>(.*?)</\1>", text, re.DOTALL)
    words = [re.sub("<[^>]*>", "", text).strip() for _, text in parts]
    assert words
    names = re.compile("MegEngine|OpenID Connect|Web Profile")
    assert [w for w in words if re.search(r"[a-z] [A-Z][a-z]", names.sub("", w))] == []
    assert not re.search(r"\bemail\b|[Ss]ign(ed)? (in|out|up)", re.sub("<[^>]*>", " ", text))


@pytest.mark.parametrize(("language", "label"), [("en", "Code"), ("zh-hans", "验证码")])
def test_the_field_of_a_code_has_the_same_label_everywhere(language, label):
    alice = make_user(language=language)
    client = Client(headers={"accept-language": language})
    log_in(client, alice)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    forms = [client.get(reverse("mfa_activate_totp")).context["form"]]
    TOTP.activate(alice, generate_totp_secret())
    forms.append(client.get(reverse("mfa_reauthenticate")).context["form"])
    forms.append(log_in(Client(headers={"accept-language": language}), alice).context["form"])
    with translation.override(language):
        assert [str(form.fields["code"].label) for form in forms] == [label] * 3


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["You are logged in as root@example.com.", "“fast” has been added.", "Saved.",
                "“fast” has been deleted.", "2 items have been deleted.",
                "You have been logged out."]),
        ("zh-hans", ["您已以 root@example.com 登录。", "“fast”已添加。", "已保存。",
                     "“fast”已删除。", "已删除 2 项。", "您已退出登录。"]),
    ],
)  # fmt: skip
def test_messages_of_login_and_of_the_admin_site(language, texts):
    root = make_user("root", is_staff=True, is_superuser=True, language=language)
    client = Client()
    messages = page_messages(log_in(client, root, next="/admin/"))
    form = {"name": "fast", "description": ""}
    messages += page_messages(client.post(f"{ADMIN}add/", form, follow=True))
    change = f"{ADMIN}{Pool.objects.get().pk}"
    messages += page_messages(client.post(f"{change}/change/", form, follow=True))
    messages += page_messages(client.post(f"{change}/delete/", {"post": "yes"}, follow=True))
    chosen = [Pool.objects.create(name=name).pk for name in "ab"]
    form = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    messages += page_messages(client.post(ADMIN, form, follow=True))
    messages += page_messages(client.post(reverse("account_logout"), {"next": "/"}, follow=True))
    assert messages == texts


def test_a_name_in_a_message_is_escaped():
    client = Client()
    client.force_login(root := make_user("root", is_staff=True, is_superuser=True))
    upload = ProfileUpload.objects.create(owner=root, name="<b>{x}%s</b>", size_bytes=1)
    page = f"/admin/profiles/profileupload/{upload.pk}/delete/"
    assert page_messages(client.post(page, {"post": "yes"}, follow=True)) == [
        "“&lt;b&gt;{x}%s&lt;/b&gt;” has been deleted."
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_mails_about_an_account_name_the_event_address_and_time(language, settings, mailoutbox):
    settings.HAS_MAIL_SERVER = settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    alice = make_verified_user(language=language)
    client = Client(headers={"user-agent": "Mozilla/5.0 (X11; Linux) Firefox/140.0"})
    log_in(client, alice)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": totp_code(secret)})
    client.post(reverse("mfa_generate_recovery_codes"))
    client.post(reverse("mfa_deactivate_totp"))
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    client.post(reverse("account_change_password"), form)
    subjects = {
        "en": ["Authenticator app set up", "New recovery codes generated",
               "Authenticator app turned off", "Password changed"],
        "zh-hans": ["已设置身份验证器应用", "已生成新的恢复代码", "已关闭身份验证器应用",
                    "密码已更改"],
    }[language]  # fmt: skip
    assert [mail.subject.removeprefix("[127.0.0.1:8000] ") for mail in mailoutbox] == subjects
    for mail in mailoutbox:
        assert "Firefox 140 · Linux" in mail.body
        assert "127.0.0.1" in mail.body
        assert "IP address" not in mail.body
        chinese = re.search("[\u4e00-\u9fff]", mail.body)
        assert bool(chinese) is (language == "zh-hans")
