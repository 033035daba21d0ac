{{- /* What would start and not work. The rest is left to `ludgate config check`. */}}
{{- define "ludgate.check" -}}
{{- with .Values }}
{{- if not .image.repository }}
{{- fail "image.repository is needed: none is published, build one from the project's Dockerfile" }}
{{- end }}
{{- if not .config.site.url }}
{{- fail "config.site.url is needed: the origin people see, such as https://hub.example.com" }}
{{- end }}
{{- if and .config.issuer (not .config.clientID) (not .config.existingSecret) }}
{{- fail "config.clientID is needed beside config.issuer, or a config.existingSecret with the key client-id" }}
{{- end }}
{{- if and (not .config.issuer) (or .config.clientID .config.clientSecret .config.existingSecret) }}
{{- fail "config.issuer is needed: without it nobody can sign in, and the client is of no use" }}
{{- end }}
{{- if and .config.clientSecret .config.existingSecret }}
{{- fail "config.clientSecret and config.existingSecret: one of them, not both" }}
{{- end }}
{{- if and .config.namespace .config.namespaces }}
{{- fail "config.namespace and config.namespaces: one of them, not both" }}
{{- end }}
{{- if and .config.logs (not .config.kubernetes) }}
{{- fail "config.logs needs config.kubernetes: logs are those of the pods of apps" }}
{{- end }}
{{- if and (or .autoscaling.enabled (gt (int .replicaCount) 1)) (not .config.sessionStoreSecret) (not .allowSeparateSessions) }}
{{- fail "more than one replica, or autoscaling, needs config.sessionStoreSecret: sessions are kept in memory, and a pod does not know those of another; see values.yaml" }}
{{- end }}
{{- if and .config.sessionStoreSecret (not .config.sessionKeysSecret) }}
{{- fail "config.sessionStoreSecret needs config.sessionKeysSecret: every pod must be able to open what another has sealed" }}
{{- end }}
{{- if and .metrics.serviceMonitor.enabled .networkPolicy.enabled (not .networkPolicy.adminFrom) }}
{{- fail "metrics.serviceMonitor needs a peer in networkPolicy.adminFrom: as it is, nobody reaches the admin port" }}
{{- end }}
{{- if and .gatewayApi.enabled (not .gatewayApi.gatewayRef.name) }}
{{- fail "gatewayApi.gatewayRef.name is needed: the Gateway that the route belongs to" }}
{{- end }}
{{- end }}
{{- end }}
