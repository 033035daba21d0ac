{{- /* With demo.enabled, controller and API are on, and empty values of `config` have those of the demo. Each file with
       such values begins with this. */}}
{{- define "ludgate.prepare" -}}
{{- if .Values.demo.enabled }}
{{- $demo := include "ludgate.demoValues" . | fromYaml }}
{{- range list "groups" "instanceTypes" }}
{{- if index $.Values.config . }}{{ $_ := unset $demo.config . }}{{ end }}
{{- end }}
{{- range list "config" "controller" "api" }}
{{- $_ := merge (index $.Values .) (index $demo .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ludgate.demoValues" -}}
config:
  # Both are ports of the gateway's pod, and of the machine with `kubectl port-forward`.
  site: { url: "http://localhost:8080" }
  issuer: "http://127.0.0.1:8081"
  clientID: ludgate-demo
  # The demo's provider listens on loopback and asks for no password, so this protects nothing.
  clientSecret: demo
  groups:
    phusers: { display_name: Research, quota: { cpu: 1, memory: 1GiB } }
    friends: { display_name: Friends, quota: { cpu: 1, memory: 1GiB } }
  instanceTypes:
    small: { cpu: 0.1, memory: 64MiB }
    large: { cpu: 2, memory: 2GiB }
controller: { enabled: true }
api: { enabled: true }
{{- end }}
