"""Addresses of users and the audit log below `/api/v1/admin/`."""

from django.urls import path

from accounts.rest import admin_views as views
from accounts.rest.admin_acts import UserActs

urlpatterns = [
    path("users/", views.UserList.as_view(), name="admin-users"),
    path("users/acts/", UserActs.as_view(), name="admin-users-acts"),
    path("users/<int:user_id>/", views.UserDetail.as_view(), name="admin-user"),
    path("users/<int:user_id>/promote/", views.UserPromote.as_view(), name="admin-user-promote"),
    path("users/<int:user_id>/demote/", views.UserDemote.as_view(), name="admin-user-demote"),
    path(
        "users/<int:user_id>/deactivate/",
        views.UserDeactivate.as_view(),
        name="admin-user-deactivate",
    ),
    path(
        "users/<int:user_id>/reactivate/",
        views.UserReactivate.as_view(),
        name="admin-user-reactivate",
    ),
    path(
        "users/<int:user_id>/remove-second-factor/",
        views.UserRemoveSecondFactor.as_view(),
        name="admin-user-remove-second-factor",
    ),
    path("users/<int:user_id>/password/", views.UserPassword.as_view(), name="admin-user-password"),
    path("users/<int:user_id>/sessions/", views.UserSessions.as_view(), name="admin-user-sessions"),
    path(
        "users/<int:user_id>/sessions/<int:session_id>/",
        views.UserOneSession.as_view(),
        name="admin-user-session",
    ),
    path(
        "users/<int:user_id>/access-tokens/", views.UserTokens.as_view(), name="admin-user-tokens"
    ),
    path(
        "users/<int:user_id>/access-tokens/<int:token_id>/",
        views.UserOneToken.as_view(),
        name="admin-user-token",
    ),
    path("grants/", views.Grants.as_view(), name="admin-grants"),
    path("grants/remove/", views.GrantsRemove.as_view(), name="admin-grants-remove"),
    path("audit/", views.AuditList.as_view(), name="admin-audit"),
    path("audit/<int:entry_id>/", views.AuditDetail.as_view(), name="admin-audit-entry"),
]
