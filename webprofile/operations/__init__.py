"""Run a site: the development server, the health check, assets, metrics of rows."""
