"""What a user asks for: read, judged before it exists, and copied when asked for again."""
