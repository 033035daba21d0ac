//! Options of listeners, pages, probes and logs.

use super::entry::{OptionEntry, fixed, translated, unneeded, unsupported};
use crate::import::value::ValueKind::{Number, Switch, Text, Texts};

const PROBES: &str = "probes are /livez and /readyz of the admin listener (admin.address)";
const PAGES: &str = "pages have a fixed text and look";
const JSON_LOG: &str =
    "the log is one JSON line per request, with fixed fields (docs/behaviour.md)";
const STDOUT: &str = "the log goes to standard output; the service manager keeps and rotates it";
const METRICS_TLS: &str =
    "the admin listener has no TLS; scrape it on loopback or inside of the cluster";
const COMMAND_LINE: &str = "it is an option of the command line only";

/// The options.
pub(crate) const OPTIONS: &[OptionEntry] = &[
    translated("http_address", Text),
    translated("https_address", Text),
    translated("tls_cert_file", Text),
    translated("tls_key_file", Text),
    translated("metrics_address", Text),
    translated("redirect_url", Text),
    translated("proxy_prefix", Text),
    translated("reverse_proxy", Switch),
    translated("trusted_proxy_ips", Texts),
    translated("request_logging", Switch),
    fixed(
        "tls_min_version",
        Text,
        "TLS1.2",
        "the lowest version is TLS 1.2",
    ),
    unsupported(
        "tls_cipher_suites",
        Texts,
        "the suites are those of rustls, all with forward secrecy",
    ),
    unsupported("metrics_secure_address", Text, METRICS_TLS),
    unsupported("metrics_tls_cert_file", Text, METRICS_TLS),
    unsupported("metrics_tls_key_file", Text, METRICS_TLS),
    fixed(
        "force_https",
        Switch,
        "false",
        "add a second [[listen]] on port 80 with redirect_to_https = true, or redirect in the proxy in front",
    ),
    fixed(
        "real_client_ip_header",
        Text,
        "X-Forwarded-For",
        "the client is read from X-Forwarded-For of listen.trusted_proxies; have the proxy in front send it",
    ),
    unneeded(
        "relative_redirect_url",
        Switch,
        "the redirect URI is always <site.url><site.endpoints>/callback",
    ),
    unneeded(
        "encode_state",
        Switch,
        "the state parameter is encrypted and safe in a URL",
    ),
    unneeded(
        "whitelist_domains",
        Texts,
        "after a sign-in browsers return to the site and to hosts of apps only",
    ),
    unneeded(
        "skip_provider_button",
        Switch,
        "there is no page before the provider's",
    ),
    unsupported("ping_path", Text, PROBES),
    unsupported("ping_user_agent", Text, PROBES),
    unsupported("ready_path", Text, PROBES),
    fixed("gcp_healthchecks", Switch, "false", PROBES),
    fixed("banner", Text, "-", PAGES),
    fixed("footer", Text, "-", PAGES),
    fixed("custom_sign_in_logo", Text, "-", PAGES),
    unsupported("custom_templates_dir", Text, PAGES),
    fixed(
        "show_debug_on_error",
        Switch,
        "false",
        "pages show a request id; the log has the cause",
    ),
    unneeded(
        "auth_logging",
        Switch,
        "sign-ins are always logged, on standard error",
    ),
    unneeded(
        "standard_logging",
        Switch,
        "log.level selects the diagnostics",
    ),
    unneeded(
        "errors_to_info_log",
        Switch,
        "diagnostics go to standard error",
    ),
    unneeded(
        "silence_ping_logging",
        Switch,
        "probes are on another listener and are not logged",
    ),
    unsupported("auth_logging_format", Text, JSON_LOG),
    unsupported("request_logging_format", Text, JSON_LOG),
    unsupported("standard_logging_format", Text, JSON_LOG),
    unsupported(
        "exclude_logging_paths",
        Texts,
        "all requests are logged; filter the lines by their field path",
    ),
    fixed(
        "request_id_header",
        Text,
        "X-Request-Id",
        "the header is always X-Request-Id, and is taken from listen.trusted_proxies only",
    ),
    unsupported("logging_filename", Text, STDOUT),
    unneeded("logging_compress", Switch, STDOUT),
    unneeded("logging_local_time", Switch, "times in the log are UTC"),
    unneeded("logging_max_age", Number, STDOUT),
    unneeded("logging_max_backups", Number, STDOUT),
    unneeded("logging_max_size", Number, STDOUT),
    unneeded("config", Text, COMMAND_LINE),
    unneeded("alpha_config", Text, COMMAND_LINE),
    unneeded("convert_config_to_alpha", Switch, COMMAND_LINE),
    unneeded("config_test", Switch, COMMAND_LINE),
    unneeded("version", Switch, COMMAND_LINE),
];
