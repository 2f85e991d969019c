"""What `manage.py check` (and so every start) says about this app's settings."""
