{{- /* Values with which Ludgate would start but not work. `ludgate config check` checks all other values. */}}
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
{{- fail "config.issuer is needed: without it users cannot sign in, and the client has no effect" }}
{{- end }}
{{- if and .config.clientSecret .config.existingSecret }}
{{- fail "config.clientSecret and config.existingSecret: set one of them, not both" }}
{{- end }}
{{- if and .config.assertionKeysSecret .config.createAssertionKeys }}
{{- fail "config.assertionKeysSecret and config.createAssertionKeys: set one of them, not both" }}
{{- end }}
{{- if and (or .config.assertionKeysSecret .config.createAssertionKeys) (not .config.issuer) }}
{{- fail "config.assertionKeysSecret and config.createAssertionKeys need config.issuer: without it there are no users to name" }}
{{- end }}
{{- if and .config.namespace .config.namespaces }}
{{- fail "config.namespace and config.namespaces: set one of them, not both" }}
{{- end }}
{{- if and .config.logs (not .config.kubernetes) }}
{{- fail "config.logs needs config.kubernetes: logs are those of the pods of apps" }}
{{- end }}
{{- if and (or .autoscaling.enabled (gt (int .replicaCount) 1)) (not .config.sessionStoreSecret) (not .allowSeparateSessions) }}
{{- fail "more than one replica, or autoscaling, needs config.sessionStoreSecret: otherwise sessions are kept in memory, and pods do not share them; see values.yaml" }}
{{- end }}
{{- if and .config.sessionStoreSecret (not .config.sessionKeysSecret) }}
{{- fail "config.sessionStoreSecret needs config.sessionKeysSecret: every pod must decrypt records that another pod has sealed" }}
{{- end }}
{{- if and (or .controller.enabled .api.enabled .config.viewers.enabled .config.installations.enabled) (not .config.kubernetes) }}
{{- fail "controller.enabled, api.enabled, config.viewers.enabled and config.installations.enabled need config.kubernetes: they work on its objects" }}
{{- end }}
{{- if and .labs.enabled (not .config.kubernetes) }}
{{- fail "labs.enabled needs config.kubernetes: labs are pods" }}
{{- end }}
{{- if and .labs.enabled (hasKey .labs.settings "gateway") (not .config.issuer) }}
{{- fail "labs.settings.gateway needs config.issuer: a lab is for its owner alone" }}
{{- end }}
{{- if and .labs.enabled (not .labs.config) }}
{{- fail "labs.enabled needs labs.config: labs, their images and sizes" }}
{{- end }}
{{- if and .labs.enabled (gt (int .labs.replicaCount) 1) (not .labs.storeSecret) (not (hasKey .labs.settings "store")) (not (hasKey .labs.settings "store_file")) }}
{{- fail "labs.replicaCount above 1 needs labs.storeSecret: otherwise starts and deletions are kept in memory, and replicas do not share them; see values.yaml" }}
{{- end }}
{{- if and .labs.storeSecret (or (hasKey .labs.settings "store") (hasKey .labs.settings "store_file")) }}
{{- fail "labs.storeSecret and a store in labs.settings: set one of them, not both" }}
{{- end }}
{{- if and .api.enabled (not .config.issuer) }}
{{- fail "api.enabled needs config.issuer: people must sign in to make apps" }}
{{- end }}
{{- if and (or (and .controller.enabled (not .controller.viewers.enabled) (not .controller.installations.enabled)) .api.enabled) (not .config.groups) }}
{{- fail "controller.enabled and api.enabled need config.groups: every app belongs to a group; only a controller of viewers or installations needs none" }}
{{- end }}
{{- if and (or .controller.viewers.enabled .controller.installations.enabled .controller.idle.enabled) (not .controller.enabled) }}
{{- fail "controller.viewers, controller.installations and controller.idle need controller.enabled: they are parts of the controller" }}
{{- end }}
{{- if and .controller.installations.enabled (not .controller.installations.image.repository) }}
{{- fail "controller.installations.image.repository is needed: an image with Helm and git, of the Dockerfile's target installs" }}
{{- end }}
{{- if and .controller.viewers.enabled .controller.viewers.image .controller.viewers.defaultPodFile }}
{{- fail "controller.viewers.image and .defaultPodFile: set one of them, not both" }}
{{- end }}
{{- if and .controller.viewers.idleAfter (not .controller.idle.enabled) }}
{{- fail "controller.viewers.idleAfter needs controller.idle.enabled: only the gateways know which viewers are in use" }}
{{- end }}
{{- if and .controller.idle.enabled (not .config.adminTokenSecret) }}
{{- fail "controller.idle.enabled needs config.adminTokenSecret: gateways tell what is in use only to holders of this token" }}
{{- end }}
{{- if and .api.enabled (not .demo.enabled) (gt (int .api.replicaCount) 1) (not .config.sessionKeysSecret) }}
{{- fail "api.replicaCount above 1 needs config.sessionKeysSecret: each pod must open what another has sealed" }}
{{- end }}
{{- if and .demo.enabled (or .ingress.enabled .gatewayApi.enabled (ne .service.type "ClusterIP")) }}
{{- fail "demo.enabled needs no ingress.enabled, no gatewayApi.enabled and service.type ClusterIP: anyone can sign in as anyone" }}
{{- end }}
{{- if and .demo.enabled (or .autoscaling.enabled (gt (int .replicaCount) 1)) }}
{{- fail "demo.enabled needs one replica: its provider and its API are in the gateway's pod" }}
{{- end }}
{{- if and .metrics.serviceMonitor.enabled .networkPolicy.enabled (not .networkPolicy.adminFrom) }}
{{- fail "metrics.serviceMonitor needs a peer in networkPolicy.adminFrom: without one, Prometheus cannot reach the admin port" }}
{{- end }}
{{- if and .gatewayApi.enabled (not .gatewayApi.gatewayRef.name) }}
{{- fail "gatewayApi.gatewayRef.name is needed: the Gateway that the route belongs to" }}
{{- end }}
{{- end }}
{{- end }}
