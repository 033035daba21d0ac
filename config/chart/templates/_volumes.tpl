{{- /* The files of the gateway and of the API. Only the gateway has the address of Redis. */}}
{{- define "ludgate.mounts" -}}
{{ include "ludgate.configMounts" . }}
{{- if include "ludgate.clientSecret" . }}
- name: client
  mountPath: /etc/ludgate/client
  readOnly: true
{{- end }}
{{- if .Values.config.sessionKeysSecret }}
- name: session-keys
  mountPath: /etc/ludgate/session-keys
  readOnly: true
{{- end }}
{{- end }}

{{- define "ludgate.volumes" -}}
{{ include "ludgate.configVolumes" . }}
{{- with include "ludgate.clientSecret" . }}
- name: client
  secret:
    secretName: {{ . }}
    # Only the secrets' keys that Ludgate reads, readable by its group only.
    items: [{ key: client-secret, path: client-secret }]
    defaultMode: 0440
{{- end }}
{{- with .Values.config.sessionKeysSecret }}
- name: session-keys
  secret:
    secretName: {{ . }}
    items: [{ key: session-keys, path: session-keys }]
    defaultMode: 0440
{{- end }}
{{- end }}

{{- /* The files of every process. */}}
{{- define "ludgate.configMounts" -}}
- name: config
  mountPath: /etc/ludgate/config
  readOnly: true
{{- if .Values.config.adminTokenSecret }}
- name: admin
  mountPath: /etc/ludgate/admin
  readOnly: true
{{- end }}
{{- end }}

{{- define "ludgate.configVolumes" -}}
- name: config
  configMap:
    name: {{ include "ludgate.fullname" . }}
{{- with .Values.config.adminTokenSecret }}
- name: admin
  secret:
    secretName: {{ . }}
    items: [{ key: token, path: token }]
    defaultMode: 0440
{{- end }}
{{- end }}
