"""The settings of accounts: who may come in, and how. Read by django-allauth and by chatsite.accounts."""

from chatsite import env
from chatsite.mail import mail_settings
from chatsite.settings_checks import check_oidc

# Doors

SIGNUP = env.boolean("SIGNUP", False)
# HTTPS=true says that there is a proxy.
TRUSTED_PROXIES = env.number("TRUSTED_PROXIES", int(env.boolean("HTTPS", False)))

MFA_REQUIRED = env.choice("MFA_REQUIRED", ["none", "staff", "all"], "none")
OWN_KEYS = env.boolean("OWN_KEYS", True)

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
PASSWORD_RESET_TIMEOUT = 24 * 3600
AUTHENTICATION_BACKENDS = ["chatsite.accounts.backends.NameOrEmail"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# Codes of second factors that were used: no process may take one again.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "accounts_remembered",
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    }
}

# Mail

_MAIL = mail_settings(env.text("EMAIL_URL"))
HAS_MAIL = bool(_MAIL)
EMAIL_BACKEND = _MAIL.get("EMAIL_BACKEND", "django.core.mail.backends.dummy.EmailBackend")
EMAIL_HOST = _MAIL.get("EMAIL_HOST", "localhost")
EMAIL_PORT = _MAIL.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _MAIL.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = _MAIL.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL = _MAIL.get("EMAIL_USE_SSL", False)
EMAIL_USE_TLS = _MAIL.get("EMAIL_USE_TLS", False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("EMAIL_FROM", "threadloom@localhost")

# django-allauth: local accounts

ACCOUNT_ADAPTER = "chatsite.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*" if HAS_MAIL else "email", "password1*", "password2*"]
# Without a mail server nobody could prove an address; with one, an account that signed itself up has to.
ACCOUNT_EMAIL_VERIFICATION = "mandatory" if HAS_MAIL and SIGNUP else "none"
ACCOUNT_EMAIL_NOTIFICATIONS = HAS_MAIL
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_MAX_EMAIL_ADDRESSES = 5
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_SESSION_REMEMBER = True
# chatsite.accounts.doors counts, over all processes and with words; twice would only confuse.
ACCOUNT_RATE_LIMITS = False
MFA_RATE_LIMITS = False

# django-allauth: second factors

MFA_ADAPTER = "chatsite.accounts.adapter_factors.FactorsAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Threadloom"
MFA_TOTP_TOLERANCE = 1
# Where there is no mail nobody can prove an address.
MFA_ALLOW_UNVERIFIED_EMAIL = True

# django-allauth: an identity provider

OIDC_ISSUER = env.base_url("OIDC_ISSUER")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET")
OIDC_NAME = env.text("OIDC_NAME", "single sign-on")
OIDC_SIGNUP = env.boolean("OIDC_SIGNUP", True)
OIDC_GROUPS_CLAIM = env.text("OIDC_GROUPS_CLAIM")
OIDC_ADMIN_GROUP = env.text("OIDC_ADMIN_GROUP")
check_oidc(OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_ADMIN_GROUP, OIDC_GROUPS_CLAIM)

SOCIALACCOUNT_ADAPTER = "chatsite.accounts.adapter_oidc.OidcAdapter"
SOCIALACCOUNT_EMAIL_REQUIRED = False
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_CLIENT_SECRET,
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }
}
