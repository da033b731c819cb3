"""`base` contains all settings; `dev`, `test` and `prod` override a few of them."""
