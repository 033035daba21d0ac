{{- /* ludgate.toml. JSON's texts, numbers and lists of texts are TOML's too. */}}
{{- define "ludgate.config" -}}
[listen]
address = "0.0.0.0:8080"
{{- with .Values.config.trustedProxies }}
trusted_proxies = {{ toJson . }}
{{- end }}
{{- with .Values.config.proxyProtocolFrom }}
proxy_protocol_from = {{ toJson . }}
{{- end }}

[admin]
address = "0.0.0.0:9090"
{{- if .Values.config.adminTokenSecret }}
token_file = "/etc/ludgate/admin/token"
{{- end }}
{{- with .Values.config }}

[site]
url = {{ toJson .site.url }}
{{- with .appsPrefix }}
apps_prefix = {{ toJson . }}
{{- end }}
{{- with .endpoints }}
endpoints = {{ toJson . }}
{{- end }}
{{- with .appsDomain }}
apps_domain = {{ toJson . }}
{{- end }}
{{- with .console }}
console = {{ toJson . }}
{{- end }}
{{- with .consoleCookies }}
console_cookies = {{ toJson . }}
{{- end }}
{{- if and $.Values.api.enabled (not $.Values.demo.enabled) }}
api = {{ printf "http://%s-api:8082" (include "ludgate.fullname" $) | toJson }}
{{- end }}
{{- if .issuer }}

[identity]
issuer = {{ toJson .issuer }}
{{- with .clientID }}
client_id = {{ toJson . }}
{{- end }}
{{- if include "ludgate.clientSecret" $ }}
client_secret_file = "/etc/ludgate/client/client-secret"
{{- end }}
{{- with .issuerCA }}
ca = {{ toJson . }}
{{- end }}
{{- with .scopes }}
scopes = {{ toJson . }}
{{- end }}
{{- with .groupsClaim }}
groups_claim = {{ toJson . }}
{{- end }}
{{- with .adminGroups }}
admin_groups = {{ toJson . }}
{{- end }}
{{- with .audiences }}
audiences = {{ toJson . }}
{{- end }}
{{- with .accessTokenCookie }}
access_token_cookie = {{ toJson . }}
{{- end }}
{{- if include "ludgate.assertionKeys" $ }}
assertion_keys = ["/etc/ludgate/assertion-keys/assertion-keys.pem"]
{{- end }}
{{- end }}
{{- if .kubernetes }}

[kubernetes]
{{- if .namespaces }}
namespaces = {{ uniq .namespaces | toJson }}
{{- else }}
namespace = {{ default $.Release.Namespace .namespace | toJson }}
{{- end }}
{{- with .isolation }}
isolation = {{ toJson . }}
{{- end }}
{{- if .logs }}
logs = true
{{- end }}
{{- if .viewers.enabled }}
{{- $viewers := dict "prefix" .viewers.prefix }}
{{- with .viewers.access }}{{ $_ := set $viewers "access" . }}{{ end }}
viewers = {{ include "ludgate.tomlValue" $viewers }}
{{- end }}
{{- if .installations.enabled }}
{{- $installations := dict "prefix" .installations.prefix }}
{{- if .installations.allNamespaces }}{{ $_ := set $installations "all_namespaces" true }}{{ end }}
installations = {{ include "ludgate.tomlValue" $installations }}
{{- end }}
{{- end }}
{{- $session := .session }}
{{- if .cookieName }}{{ $session = merge (dict "cookie" .cookieName) $session }}{{ end }}
{{- if .sessionKeysSecret }}{{ $session = merge (dict "keys_file" "/etc/ludgate/session-keys/session-keys") $session }}{{ end }}
{{- if .sessionStoreSecret }}{{ $session = merge (dict "store_file" "/etc/ludgate/session-store/store") $session }}{{ end }}
{{- range $name, $table := dict "session" $session "limits" .limits "log" .log }}
{{- if $table }}

[{{ $name }}]
{{- range $key, $value := $table }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}
{{- range $table, $entries := dict "groups" .groups "instance_types" .instanceTypes }}
{{- range $name, $keys := $entries }}

[{{ $table }}.{{ toJson $name }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ include "ludgate.tomlValue" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- if $.Values.api.enabled }}

[api]
address = {{ ternary "127.0.0.1:8082" "0.0.0.0:8082" $.Values.demo.enabled | toJson }}
{{- if $.Values.api.templateImport }}
template_import = true
{{- end }}
{{- if $.Values.api.deviceSignIn }}
device_sign_in = true
{{- end }}
{{- end }}
{{- with $.Values.labs }}
{{- if .enabled }}

[labs]
address = "0.0.0.0:8083"
config = "labs.yaml"
lease = {{ printf "%s-labs" (include "ludgate.fullname" $) | toJson }}
{{- if .storeSecret }}
store_file = "/etc/ludgate/lab-store/store"
keys_file = "/etc/ludgate/lab-store/keys"
{{- end }}
{{- $settings := deepCopy .settings }}
{{- if hasKey .settings "gateway" }}
{{- /* Only the gateway reaches labs besides the hub. */}}
{{- $prefix := dig "lab" "namespacePrefix" "" .config }}
{{- with $prefix }}{{ $_ := set $settings "gateway" (merge $settings.gateway (dict "namespace_prefix" .)) }}{{ end }}
{{- $gateway := printf "app.kubernetes.io/instance=%s,app.kubernetes.io/component=ludgate-gateway" $.Release.Name }}
{{- $release := printf "kubernetes.io/metadata.name=%s" $.Release.Namespace }}
{{- $settings = merge $settings (dict "proxy_pod_labels" (list $gateway) "proxy_namespace_labels" (list $release)) }}
{{- end }}
{{- range $key, $value := $settings }}
{{ $key }} = {{ include "ludgate.tomlValue" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- if $.Values.controller.enabled }}

[controller]
lease = {{ printf "%s-controller" (include "ludgate.fullname" $) | toJson }}
{{- if $.Values.controller.webhook.enabled }}

[controller.webhook]
address = "0.0.0.0:8443"
{{- $webhook := printf "%s-webhook" (include "ludgate.fullname" $) }}
names = {{ list (printf "%s.%s.svc" $webhook $.Release.Namespace) | toJson }}
secret = {{ toJson $webhook }}
namespace = {{ toJson $.Release.Namespace }}
configuration = {{ printf "%s-%s" $webhook $.Release.Namespace | toJson }}
{{- end }}
{{- /* Only the gateway reaches apps, and not the other processes of the chart. */}}
{{- $gateway := printf "app.kubernetes.io/instance=%s,app.kubernetes.io/component=ludgate-gateway" $.Release.Name }}
{{- $proxies := dict "proxy_pod_labels" (list $gateway) }}
{{- if ne (list $.Release.Namespace | toJson) (include "ludgate.namespaces" $) }}
{{- $release := printf "kubernetes.io/metadata.name=%s" $.Release.Namespace }}
{{- $_ := set $proxies "proxy_namespace_labels" (list $release) }}
{{- end }}
{{- if include "ludgate.runsApplications" $ }}

[controller.applications]
{{- $applications := merge (dict "folder_image" (include "ludgate.image" $)) $proxies }}
{{- range $key, $value := merge (deepCopy $.Values.controller.applications) $applications }}
{{ $key }} = {{ include "ludgate.tomlValue" $value }}
{{- end }}
{{- end }}
{{- with $.Values.controller.viewers }}
{{- if .enabled }}

[controller.viewers]
{{- /* Every value is a key. Empty ones are left out, so that the program's default applies. */}}
{{- $viewers := dict "yields" .yields }}
{{- range $key, $value := omit . "enabled" "yields" }}
{{- if $value }}{{ $_ := set $viewers (snakecase $key) $value }}{{ end }}
{{- end }}
{{- range $key, $value := merge $viewers $proxies }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with $.Values.controller.installations }}
{{- if .enabled }}

[controller.installations]
{{- range $key, $value := merge (deepCopy .settings) (dict "folder" "/var/lib/ludgate") }}
{{ $key }} = {{ include "ludgate.tomlValue" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- with $.Values.controller.idle }}
{{- if .enabled }}

[controller.idle]
gateways = {{ default (list (printf "%s-admin.%s.svc:9090" (include "ludgate.fullname" $) $.Release.Namespace)) .gateways | toJson }}
token_file = "/etc/ludgate/admin/token"
{{- end }}
{{- end }}
{{- end }}
{{- with .extra }}

{{ trim . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A value of TOML: a table becomes an inline table. */}}
{{- define "ludgate.tomlValue" -}}
{{- if kindIs "map" . }}
{{- $entries := list }}
{{- range $key, $value := . }}{{ $entries = append $entries (printf "%s = %s" $key (include "ludgate.tomlValue" $value)) }}{{ end }}
{{- printf "{ %s }" (join ", " $entries) }}
{{- else }}{{ toJson . }}
{{- end }}
{{- end }}
