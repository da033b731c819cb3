"""Who uses the site: users, and what they may do."""
