"""Tasks that users submit: their life cycle, scheduling on devices, pages and API."""
