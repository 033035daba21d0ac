{{- /* The Deployment and ServiceAccount of a process beside the gateway. Takes root, component (its subcommand), values,
       and `ports`, a list of container ports. With `secrets` it signs people in, so it has the files for that, with `env`
       the variables alone, and with `pod` it knows its pod. `peers` may connect besides the gateway, and a change of
       `files` replaces the pods. `labStore` is a Secret with the address of a Redis and with keys.
        `image` replaces the chart's, and with `work` the pod has a folder to write to. */}}
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
        checksum/config: {{ print (include "ludgate.config" $root) (default "" $.files) | sha256sum }}
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
          image: {{ default (include "ludgate.image" $root) $.image | quote }}
          imagePullPolicy: {{ .image.pullPolicy }}
          args: [{{ $.component }}, --config, /etc/ludgate/config/ludgate.toml]
          {{- $variables := ternary (include "ludgate.env" $root) "" (or $.secrets (hasKey $ "env")) }}
          {{- if or $variables $.pod }}
          env:
            {{- with $variables }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- if $.pod }}
            {{- include "ludgate.podVariables" $root | nindent 12 }}
            {{- end }}
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
            {{- if $.labStore }}
            - name: lab-store
              mountPath: /etc/ludgate/lab-store
              readOnly: true
            {{- end }}
            {{- if $.work }}
            - name: work
              mountPath: /var/lib/ludgate
            {{- end }}
            {{- with .extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- include (ternary "ludgate.volumes" "ludgate.configVolumes" $.secrets) $root | nindent 8 }}
        {{- with $.labStore }}
        - name: lab-store
          secret:
            secretName: {{ . }}
            # Only the keys that Ludgate reads, readable by its group only.
            items: [{ key: store, path: store }, { key: keys, path: keys }]
            defaultMode: 0440
        {{- end }}
        {{- if $.work }}
        - name: work
          emptyDir: {}
        {{- end }}
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
        {{- with $.peers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
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

{{- /* Objects that belong to this pod end with it. */}}
{{- define "ludgate.podVariables" -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: POD_UID
  valueFrom: { fieldRef: { fieldPath: metadata.uid } }
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
