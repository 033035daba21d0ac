{{- /* The Deployment and ServiceAccount of a process beside the gateway. Takes root, component (its subcommand), values,
       and `ports`, a list of container ports. With `secrets` it signs people in, so it has the files for that. */}}
{{- define "ludgate.process" -}}
{{- $root := .root }}
{{- $name := printf "%s-%s" (include "ludgate.fullname" $root) .component }}
{{- $labels := merge (include "ludgate.processSelector" . | fromYaml) (include "ludgate.commonLabels" $root | fromYaml) }}
{{- with $root.Values }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
# The pod mounts a token explicitly.
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  replicas: {{ $.values.replicaCount }}
  revisionHistoryLimit: {{ .revisionHistoryLimit }}
  selector:
    matchLabels:
      {{- include "ludgate.processSelector" $ | nindent 6 }}
  template:
    metadata:
      labels:
        {{- toYaml $labels | nindent 8 }}
      annotations:
        # Most of the configuration is read at start, so a change replaces the pods.
        checksum/config: {{ include "ludgate.config" $root | sha256sum }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      # Ludgate reads LUDGATE_* variables, so no Service may inject any.
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .terminationGracePeriodSeconds }}
      {{- with .priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: ludgate
          image: {{ include "ludgate.image" $root | quote }}
          imagePullPolicy: {{ .image.pullPolicy }}
          args: [{{ $.component }}, --config, /etc/ludgate/config/ludgate.toml]
          {{- with ternary (include "ludgate.env" $root) "" $.secrets }}
          env:
            {{- . | nindent 12 }}
          {{- end }}
          ports:
            {{- toYaml (append $.ports (dict "name" "admin" "containerPort" 9090)) | nindent 12 }}
          {{- if .livenessProbe.enabled }}
          livenessProbe:
            httpGet:
              path: /livez
              port: admin
            {{- omit .livenessProbe "enabled" | toYaml | nindent 12 }}
          {{- end }}
          {{- if .readinessProbe.enabled }}
          readinessProbe:
            httpGet:
              path: /readyz
              port: admin
            {{- omit .readinessProbe "enabled" | toYaml | nindent 12 }}
          {{- end }}
          {{- with $.values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            {{- include (ternary "ludgate.mounts" "ludgate.configMounts" $.secrets) $root | nindent 12 }}
            {{- with .extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- include (ternary "ludgate.volumes" "ludgate.configVolumes" $.secrets) $root | nindent 8 }}
        {{- with .extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if .networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "ludgate.processSelector" $ | nindent 6 }}
  policyTypes: [Ingress]
  {{- if or $.ports .networkPolicy.adminFrom }}
  ingress:
    {{- range $.ports }}
    - ports:
        - port: {{ .name }}
      from:
        - podSelector:
            matchLabels:
              {{- include "ludgate.selector" $root | nindent 14 }}
    {{- end }}
    {{- with .networkPolicy.adminFrom }}
    - ports:
        - port: admin
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ludgate.processSelector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: ludgate-{{ .component }}
{{- end }}

{{- /* A Role in each namespace of apps, for a ServiceAccount of the release. Takes root, component, account, rules, and
       `file` if the component's name is not that of its file. */}}
{{- define "ludgate.role" -}}
{{- $name := printf "%s-%s" (include "ludgate.fullname" .root) .component }}
{{- range include "ludgate.namespaces" .root | fromJsonArray }}
---
# As config/rbac/{{ default $.component $.file }}.yaml.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  labels:
    {{- include "ludgate.commonLabels" $.root | nindent 4 }}
rules:
  {{- $.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  labels:
    {{- include "ludgate.commonLabels" $.root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $.account }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
