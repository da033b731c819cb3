"""Takes django_dramatiq's own table out of the administration.

It is called “Tasks” and always empty here: messages are hints, tasks are rows of ours.
"""

from django.contrib import admin
from django_dramatiq.models import Task as DramatiqMessage

if admin.site.is_registered(DramatiqMessage):
    admin.site.unregister(DramatiqMessage)
