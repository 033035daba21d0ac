{{- define "ludgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ludgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "ludgate.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "ludgate.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Labels that select the gateway's pods. app.kubernetes.io/name is not one of them, because podLabels may change it. */}}
{{- define "ludgate.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: ludgate-gateway
{{- end }}

{{- define "ludgate.labels" -}}
{{ include "ludgate.commonLabels" . }}
{{ include "ludgate.selector" . }}
{{- end }}

{{- define "ludgate.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "ludgate.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ludgate.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{- define "ludgate.serviceAccount" -}}
{{- if .Values.serviceAccount.enabled }}
{{- default (include "ludgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The namespaces with the apps, as a JSON list. */}}
{{- define "ludgate.namespaces" -}}
{{- with .Values.config }}
{{- if .namespaces }}{{ uniq .namespaces | toJson }}
{{- else }}{{ list (default $.Release.Namespace .namespace) | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if the controller makes the pods of PhApplications. Each belongs to a group. */}}
{{- define "ludgate.runsApplications" -}}
{{- if and .Values.controller.enabled .Values.config.groups }}true{{ end }}
{{- end }}

{{- define "ludgate.runsViewers" -}}
{{- if and .Values.controller.enabled .Values.controller.viewers.enabled }}true{{ end }}
{{- end }}

{{- define "ludgate.runsInstallations" -}}
{{- if and .Values.controller.enabled .Values.controller.installations.enabled }}true{{ end }}
{{- end }}

{{- /* The image with Helm and git; empty if the controller needs neither. */}}
{{- define "ludgate.installsImage" -}}
{{- if include "ludgate.runsInstallations" . }}
{{- with .Values.controller.installations.image }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if the controller asks the chart's own gateway which apps are in use. */}}
{{- define "ludgate.asksGateway" -}}
{{- with .Values.controller }}
{{- if and .enabled .idle.enabled (not .idle.gateways) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* The public hosts, as a JSON list. */}}
{{- define "ludgate.hosts" -}}
{{- $hosts := list (urlParse .Values.config.site.url).hostname }}
{{- with .Values.config.appsDomain }}{{ $hosts = append $hosts (printf "*.%s" .) }}{{ end }}
{{- toJson $hosts }}
{{- end }}

{{- /* The name of the Secret with the client's secret; empty for a public client. */}}
{{- define "ludgate.clientSecret" -}}
{{- if .Values.config.existingSecret }}{{ .Values.config.existingSecret }}
{{- else if .Values.config.clientSecret }}{{ include "ludgate.fullname" . }}
{{- end }}
{{- end }}

{{- /* The Secret with the keys that sign identities for apps; empty: there are none. */}}
{{- define "ludgate.assertionKeys" -}}
{{- if .Values.config.assertionKeysSecret }}{{ .Values.config.assertionKeysSecret }}
{{- else if .Values.config.createAssertionKeys }}{{ include "ludgate.fullname" . }}-assertion-keys
{{- end }}
{{- end }}

{{- /* Variables of the gateway and of the API. */}}
{{- define "ludgate.env" -}}
{{- if and .Values.config.issuer (not .Values.config.clientID) }}
- name: LUDGATE_IDENTITY__CLIENT_ID
  valueFrom:
    secretKeyRef:
      name: {{ .Values.config.existingSecret }}
      key: client-id
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
