"""Operation of a site: development server, health check, frontend assets and database metrics."""
