"""The Django project: settings, routing and what every app shares."""
