"""Convert profiles to what pages and the API display, in the user's language."""
