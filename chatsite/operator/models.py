from django.db import models


class SetupLink(models.Model):
    """The link that makes the first administrator. There is at most one row: whoever deletes it has won."""

    digest = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"setup link until {self.expires_at:%Y-%m-%d %H:%M}"


class ToolServer(models.Model):
    """No row: what the admin's page of tools and of who serves them, and the permission to see it, hang on."""

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "tool"

    def __str__(self) -> str:
        return "tool"
