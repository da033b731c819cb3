"""Remove django_dramatiq's model from the admin site.

It is labelled “Tasks”, which would be confused with our tasks, and its table is always empty here.
"""

from django.contrib import admin
from django_dramatiq.models import Task as DramatiqMessage

if admin.site.is_registered(DramatiqMessage):
    admin.site.unregister(DramatiqMessage)
