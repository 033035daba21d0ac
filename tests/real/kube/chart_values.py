"""The sets of values with which chart.py renders the chart, and the expected results."""

import copy
import os

# A separate namespace, so that the checks can run on a cluster in use.
NAMESPACE = f"ludgate-chart-{os.getpid()}"

MINIMAL = {
    "image": {"repository": "registry.example.com/ludgate"},
    "config": {"site": {"url": "https://hub.example.com"}},
}
SIGN_IN = {"issuer": "https://id.example.com/realms/hub", "clientID": "ludgate"}


def merged(*sets):
    """Merges sets of values as Helm does; later sets take precedence."""
    result = {}
    for values in sets:
        for key, value in values.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


def with_config(**config):
    return merged(MINIMAL, {"config": config})


PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
EVERYTHING = merged(with_config(
    **SIGN_IN, existingSecret="hub-client", issuerCA="/etc/ssl/certs/ca-certificates.crt", scopes=["openid", "groups"],
    groupsClaim="/realm_access/roles", adminGroups=["admins", 'with "quotes" & <more>'], audiences=["ludgate", "cli"],
    accessTokenCookie="accessToken", appsPrefix="/console/apps", endpoints="/gate", appsDomain="apps.example.net",
    console="http://primehub-console", consoleCookies=["accessToken", "refreshToken"],
    cookieName="phapplication-session-id", namespaces=[NAMESPACE, NAMESPACE + "-b"], logs=True,
    trustedProxies=["10.0.0.0/8"], proxyProtocolFrom=["192.0.2.0/24"], isolation="host", adminTokenSecret="hub-admin", sessionKeysSecret="hub-keys",
    session={"idle": "15m"}, limits={"connections": 20000}, log={"requests": False, "level": "warn"},
    extra='[[apps]]\nid = "docs"\nupstream = "http://docs:80"\naccess = "public"\n',
), {
    "allowSeparateSessions": True,
    "autoscaling": {"enabled": True, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}},
    "podDisruptionBudget": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"a.example.com/b": "c"},
                "tls": [{"secretName": "hub-tls", "hosts": ["hub.example.com"]}]},
    "gatewayApi": {"enabled": True, "gatewayRef": {"name": "front", "namespace": "gateways", "sectionName": "https"}},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "networkPolicy": {"from": [PEER], "adminFrom": [PEER], "apps": {"enabled": True}},
    "podLabels": {"app.kubernetes.io/name": "primehub-console", "app.kubernetes.io/instance": "not-this"},
    "podAnnotations": {"a": "b"}, "deploymentAnnotations": {"c": "d"}, "image": {"tag": "1.2.3"},
    "imagePullSecrets": [{"name": "pull"}], "serviceAccount": {"name": "gate", "annotations": {"e": "f"}},
    "service": {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"},
    "lifecycle": {"preStop": {"exec": {"command": ["/usr/local/bin/ludgate", "--version"]}}},
    "resources": {"requests": {"cpu": "100m"}}, "extraEnv": [{"name": "LUDGATE_LISTEN__ADDRESS", "value": "[::]:8080"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    "nodeSelector": {"pool": "edge"}, "tolerations": [{"key": "edge", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                                   "labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "hub"}}}],
    "priorityClassName": "system-cluster-critical",
})

LISTEN = {"listen": {"address": "0.0.0.0:8080"}, "admin": {"address": "0.0.0.0:9090"}}
# The controller's policies admit these pods to apps, whatever the name of the chart.
GATEWAY_LABELS = "app.kubernetes.io/instance=hub,app.kubernetes.io/component=ludgate-gateway"
PROXIES = {"proxy_pod_labels": [GATEWAY_LABELS], "proxy_namespace_labels": ["kubernetes.io/metadata.name=" + NAMESPACE]}
ADMIN = LISTEN["admin"] | {"token_file": "/etc/ludgate/admin/token"}
WEBHOOK = {"address": "0.0.0.0:8443", "names": [f"hub-ludgate-webhook.{NAMESPACE}.svc"], "secret": "hub-ludgate-webhook",
           "namespace": NAMESPACE, "configuration": f"hub-ludgate-webhook-{NAMESPACE}"}
# An image with Helm and git.
INSTALLATIONS = {"enabled": True, "image": {"repository": "registry.example.com/ludgate-installs"}}
SITE = {"site": {"url": "https://hub.example.com"}}
IDENTITY = {"issuer": "https://id.example.com/realms/hub", "client_id": "ludgate"}
SECRET_FILE = {"client_secret_file": "/etc/ludgate/client/client-secret"}
ASSERTION_KEYS = {"assertion_keys": ["/etc/ludgate/assertion-keys/assertion-keys.pem"]}
WATCHED = {"kubernetes": {"namespace": NAMESPACE}}

# Values, and the complete ludgate.toml that the chart renders from them.
SETS = {
    "minimal": (MINIMAL, LISTEN | SITE | WATCHED),
    "a public client": (with_config(**SIGN_IN), LISTEN | SITE | WATCHED | {"identity": IDENTITY}),
    "a Secret of the chart": (
        with_config(**SIGN_IN, clientSecret='quote " and $'),
        LISTEN | SITE | WATCHED | {"identity": IDENTITY | SECRET_FILE}),
    "client ID and secret in an existing Secret": (
        with_config(issuer=SIGN_IN["issuer"], existingSecret="hub-client"),
        LISTEN | SITE | WATCHED | {"identity": {"issuer": IDENTITY["issuer"]} | SECRET_FILE}),
    "keys of assertions, made by the chart": (
        with_config(**SIGN_IN, createAssertionKeys=True),
        LISTEN | SITE | WATCHED | {"identity": IDENTITY | ASSERTION_KEYS}),
    "keys of assertions in an existing Secret": (
        with_config(**SIGN_IN, assertionKeysSecret="hub-assertions"),
        LISTEN | SITE | WATCHED | {"identity": IDENTITY | ASSERTION_KEYS}),
    "apps of another namespace": (
        merged(with_config(namespace=NAMESPACE + "-b"), {"networkPolicy": {"apps": {"enabled": True}}}),
        LISTEN | SITE | {"kubernetes": {"namespace": NAMESPACE + "-b"}}),
    "no Kubernetes": (
        merged(with_config(kubernetes=False, extra='[[apps]]\nid = "a"\nupstream = "http://a"\naccess = "public"'),
               {"networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": True, "minAvailable": 0}}),
        LISTEN | SITE | {"apps": [{"id": "a", "upstream": "http://a", "access": "public"}]}),
    "several replicas": (
        merged(MINIMAL, {"allowSeparateSessions": True, "replicaCount": 3, "fullnameOverride": "gate"}),
        LISTEN | SITE | WATCHED),
    "several replicas that share sessions": (
        merged(with_config(sessionKeysSecret="hub-keys", sessionStoreSecret="hub-store"), {"replicaCount": 3}),
        LISTEN | SITE | WATCHED | {"session": {
            "keys_file": "/etc/ludgate/session-keys/session-keys", "store_file": "/etc/ludgate/session-store/store"}}),
    "a controller and an API": (
        merged(with_config(
            **SIGN_IN, groups={"phusers": {"volume": "project-phusers", "quota": {"cpu": 4, "memory": "8GiB"}}},
            instanceTypes={"cpu-1.5": {"cpu": 1.5, "memory": "2GiB"}}, namespace=NAMESPACE + "-b",
            existingSecret="hub-client", sessionKeysSecret="hub-keys", sessionStoreSecret="hub-store"),
               {"controller": {"enabled": True, "replicaCount": 2, "applications": {
                   "allowed_pod_rights": ["host_namespaces"], "folder_image": "registry.example.com/folder:1"}},
                "api": {"enabled": True, "templateImport": True, "deviceSignIn": True, "resources": {"requests": {"cpu": "50m"}}},
                "networkPolicy": {"adminFrom": [PEER]}, "extraEnv": [{"name": "A", "value": "b"}]}),
        LISTEN | {"site": SITE["site"] | {"api": "http://hub-ludgate-api:8082"}} | {
            "kubernetes": {"namespace": NAMESPACE + "-b"}, "identity": IDENTITY | SECRET_FILE,
            "session": {"keys_file": "/etc/ludgate/session-keys/session-keys",
                        "store_file": "/etc/ludgate/session-store/store"},
            "groups": {"phusers": {"volume": "project-phusers", "quota": {"cpu": 4, "memory": "8GiB"}}},
            "instance_types": {"cpu-1.5": {"cpu": 1.5, "memory": "2GiB"}},
            "api": {"address": "0.0.0.0:8082", "template_import": True, "device_sign_in": True},
            "controller": {"lease": "hub-ludgate-controller", "applications": {
                "folder_image": "registry.example.com/folder:1", "allowed_pod_rights": ["host_namespaces"]} | PROXIES}}),
    "labs": (
        merged(with_config(**SIGN_IN, existingSecret="hub-client", namespace=NAMESPACE + "-b"), {"labs": {
            "enabled": True, "config": {"lab": {"sizes": []}, "images": {}},
            "settings": {"dialect": "nublado", "trusted_peers": ["10.0.0.0/8"],
                         "scopes": {"hub": ["claim:azp=jupyterhub", "proxy"]}},
            "from": [PEER]}}),
        LISTEN | SITE | {
            "kubernetes": {"namespace": NAMESPACE + "-b"}, "identity": IDENTITY | SECRET_FILE,
            "labs": {"address": "0.0.0.0:8083", "config": "labs.yaml", "lease": "hub-ludgate-labs", "dialect": "nublado",
                     "trusted_peers": ["10.0.0.0/8"], "scopes": {"hub": ["claim:azp=jupyterhub", "proxy"]}}}),
    "labs on several replicas": (
        merged(with_config(**SIGN_IN, existingSecret="hub-client"), {"labs": {
            "enabled": True, "replicaCount": 2, "storeSecret": "lab-store",
            "config": {"lab": {"sizes": []}, "images": {}}}}),
        LISTEN | SITE | WATCHED | {
            "identity": IDENTITY | SECRET_FILE,
            "labs": {"address": "0.0.0.0:8083", "config": "labs.yaml", "lease": "hub-ludgate-labs",
                     "store_file": "/etc/ludgate/lab-store/store", "keys_file": "/etc/ludgate/lab-store/keys"}}),
    "labs that the gateway serves": (
        merged(with_config(**SIGN_IN, existingSecret="hub-client"), {"labs": {
            "enabled": True, "config": {"lab": {"namespacePrefix": "userlabs", "sizes": []}, "images": {}},
            "settings": {"gateway": {"prefix": "/apps/nb/user"}}}}),
        LISTEN | SITE | WATCHED | {
            "identity": IDENTITY | SECRET_FILE,
            "labs": {"address": "0.0.0.0:8083", "config": "labs.yaml", "lease": "hub-ludgate-labs",
                     "gateway": {"prefix": "/apps/nb/user", "namespace_prefix": "userlabs"},
                     "proxy_pod_labels": [GATEWAY_LABELS],
                     "proxy_namespace_labels": [f"kubernetes.io/metadata.name={NAMESPACE}"]}}),
    "a controller with a webhook": (
        merged(MINIMAL, {"controller": {"enabled": True, "webhook": {"enabled": True}}},
               with_config(groups={"phusers": {}})),
        LISTEN | SITE | WATCHED | {
            "groups": {"phusers": {}},
            "controller": {"lease": "hub-ludgate-controller", "webhook": WEBHOOK,
                "applications": {"folder_image": "registry.example.com/ludgate:0.1.0",
                                 "proxy_pod_labels": [GATEWAY_LABELS]}}}),
    "installations with a webhook": (
        merged(with_config(installations={"enabled": True}), {"controller": {
            "enabled": True, "webhook": {"enabled": True}, "installations": INSTALLATIONS}}),
        LISTEN | SITE | {
            "kubernetes": {"namespace": NAMESPACE, "installations": {"prefix": "/installs"}},
            "controller": {"lease": "hub-ludgate-controller", "webhook": WEBHOOK,
                           "installations": {"folder": "/var/lib/ludgate"}}}),
    "installations of all namespaces": (
        merged(with_config(installations={"enabled": True, "prefix": "/a", "allNamespaces": True}), {"controller": {
            "enabled": True, "installations": INSTALLATIONS | {"settings": {
                "all_namespaces": True, "cluster_role": "ludgate-apps",
                "allowed_hosts": ["charts.example.com"], "max_chart": "1MiB"}}}}),
        LISTEN | SITE | {
            "kubernetes": {"namespace": NAMESPACE, "installations": {"prefix": "/a", "all_namespaces": True}},
            "controller": {"lease": "hub-ludgate-controller", "installations": {
                "all_namespaces": True, "cluster_role": "ludgate-apps", "folder": "/var/lib/ludgate",
                "allowed_hosts": ["charts.example.com"], "max_chart": "1MiB"}}}),
    "installations of a controller elsewhere": (
        with_config(installations={"enabled": True}, namespaces=[NAMESPACE, NAMESPACE + "-b"]),
        LISTEN | SITE | {"kubernetes": {"namespaces": [NAMESPACE, NAMESPACE + "-b"],
                                        "installations": {"prefix": "/installs"}}}),
    "viewers, and unused ones are stopped": (
        merged(with_config(
            groups={"phusers": {}}, namespaces=[NAMESPACE, NAMESPACE + "-b"], adminTokenSecret="hub-admin",
            viewers={"enabled": True, "prefix": "/volumes", "access": "group:{label:team}"}),
               {"controller": {
                   "enabled": True, "webhook": {"enabled": True}, "idle": {"enabled": True}, "viewers": {
                       "enabled": True, "basePrefix": "/volumes", "image": "registry.example.com/filebrowser@sha256:" + "0" * 64,
                       "idleAfter": "30m", "affinity": "preferred", "yields": False, "allowedPodRights": ["scheduling"],
                       "serviceAccounts": ["default-editor"], "trustedNamespaces": ["admins"]}},
                "networkPolicy": {"adminFrom": [PEER]}, "metrics": {"serviceMonitor": {"enabled": True}}}),
        LISTEN | SITE | {
            "admin": ADMIN, "groups": {"phusers": {}},
            "kubernetes": {"namespaces": [NAMESPACE, NAMESPACE + "-b"],
                           "viewers": {"prefix": "/volumes", "access": "group:{label:team}"}},
            "controller": {
                "lease": "hub-ludgate-controller", "webhook": WEBHOOK,
                "applications": PROXIES | {"folder_image": "registry.example.com/ludgate:0.1.0"},
                "viewers": PROXIES | {
                    "base_prefix": "/volumes", "image": "registry.example.com/filebrowser@sha256:" + "0" * 64,
                    "idle_after": "30m", "affinity": "preferred", "yields": False, "allowed_pod_rights": ["scheduling"],
                    "service_accounts": ["default-editor"], "trusted_namespaces": ["admins"]},
                "idle": {"gateways": [f"hub-ludgate-admin.{NAMESPACE}.svc:9090"],
                         "token_file": "/etc/ludgate/admin/token"}}}),
    "viewers without apps, published by Istio": (
        merged(with_config(adminTokenSecret="hub-admin"), {"controller": {
            "enabled": True, "webhook": {"enabled": True}, "idle": {"enabled": True, "gateways": ["192.0.2.1:9090"]},
            "viewers": {"enabled": True, "publish": "virtual_service", "publishGateway": "edge/front",
                        "proxyPodLabels": ["app=istio-ingressgateway"], "proxyNamespaceLabels": ["istio=edge"]}}}),
        LISTEN | SITE | WATCHED | {"admin": ADMIN, "controller": {
            "lease": "hub-ludgate-controller", "webhook": WEBHOOK,
            "viewers": {"yields": True, "publish": "virtual_service", "publish_gateway": "edge/front",
                        "proxy_pod_labels": ["app=istio-ingressgateway"], "proxy_namespace_labels": ["istio=edge"]},
            "idle": {"gateways": ["192.0.2.1:9090"], "token_file": "/etc/ludgate/admin/token"}}}),
    "viewers by the Gateway API, with a pod of the operator": (
        merged(with_config(viewers={"enabled": True, "access": "group:ns-{namespace}"}), {
            "controller": {"enabled": True, "viewers": {
                "enabled": True, "publish": "http_route", "defaultPodFile": "/etc/ludgate/viewer/pod.yaml"}},
            "extraVolumes": [{"name": "viewer", "configMap": {"name": "viewer-pod"}}],
            "extraVolumeMounts": [{"name": "viewer", "mountPath": "/etc/ludgate/viewer"}]}),
        LISTEN | SITE | {
            "kubernetes": {"namespace": NAMESPACE, "viewers": {"prefix": "/pvcviewers", "access": "group:ns-{namespace}"}},
            "controller": {"lease": "hub-ludgate-controller", "viewers": {
                "yields": True, "publish": "http_route", "default_pod_file": "/etc/ludgate/viewer/pod.yaml",
                "proxy_pod_labels": [GATEWAY_LABELS]}}}),
    "viewers of a controller elsewhere": (
        with_config(viewers={"enabled": True}),
        LISTEN | SITE | {"kubernetes": {"namespace": NAMESPACE, "viewers": {"prefix": "/pvcviewers"}}}),
    "demo": (
        {"image": {"repository": "registry.example.com/ludgate", "tag": "1"}, "config": {}, "demo": {"enabled": True}},
        LISTEN | WATCHED | {
            "site": {"url": "http://localhost:8080"},
            "identity": {"issuer": "http://127.0.0.1:8081", "client_id": "ludgate-demo"} | SECRET_FILE,
            "groups": {"phusers": {"display_name": "Research", "quota": {"cpu": 1, "memory": "1GiB"}},
                       "friends": {"display_name": "Friends", "quota": {"cpu": 1, "memory": "1GiB"}}},
            "instance_types": {"small": {"cpu": 0.1, "memory": "64MiB"},
                               "large": {"cpu": 2, "memory": "2GiB"}},
            "api": {"address": "127.0.0.1:8082"},
            "controller": {"lease": "hub-ludgate-controller",
                           "applications": {"folder_image": "registry.example.com/ludgate:1",
                                            "proxy_pod_labels": [GATEWAY_LABELS]}}}),
    "everything": (EVERYTHING, {
        "listen": {"address": "0.0.0.0:8080", "trusted_proxies": ["10.0.0.0/8"],
                   "proxy_protocol_from": ["192.0.2.0/24"]},
        "admin": {"address": "0.0.0.0:9090", "token_file": "/etc/ludgate/admin/token"},
        "site": {
            "url": "https://hub.example.com", "apps_prefix": "/console/apps", "endpoints": "/gate",
            "apps_domain": "apps.example.net", "console": "http://primehub-console",
            "console_cookies": ["accessToken", "refreshToken"]},
        "identity": IDENTITY | SECRET_FILE | {
            "ca": "/etc/ssl/certs/ca-certificates.crt", "scopes": ["openid", "groups"],
            "groups_claim": "/realm_access/roles",
            "admin_groups": ["admins", 'with "quotes" & <more>'], "audiences": ["ludgate", "cli"],
            "access_token_cookie": "accessToken"},
        "kubernetes": {"namespaces": [NAMESPACE, NAMESPACE + "-b"], "isolation": "host", "logs": True},
        "session": {"idle": "15m", "cookie": "phapplication-session-id",
                    "keys_file": "/etc/ludgate/session-keys/session-keys"},
        "limits": {"connections": 20000},
        "log": {"requests": False, "level": "warn"},
        "apps": [{"id": "docs", "upstream": "http://docs:80", "access": "public"}],
    }),
}

VIEWERS = {"controller": {"enabled": True, "viewers": {"enabled": True}}}
# Values, and a part of Helm's error message.
REFUSED = [
    ({}, "image.repository is needed"),
    ({"image": {"repository": "ludgate"}}, "config.site.url is needed"),
    (with_config(issuer=SIGN_IN["issuer"]), "config.clientID is needed"),
    (with_config(clientID="ludgate"), "config.issuer is needed"),
    (with_config(**SIGN_IN, clientSecret="a", existingSecret="b"), "one of them, not both"),
    (with_config(namespace="a", namespaces=["b"]), "one of them, not both"),
    (with_config(**SIGN_IN, assertionKeysSecret="a", createAssertionKeys=True), "one of them, not both"),
    (with_config(createAssertionKeys=True), "need config.issuer"),
    (with_config(kubernetes=False, logs=True), "config.logs needs config.kubernetes"),
    (merged(MINIMAL, {"replicaCount": 2}), "sessions are kept in memory"),
    (merged(MINIMAL, {"autoscaling": {"enabled": True}}), "sessions are kept in memory"),
    (with_config(sessionStoreSecret="hub-store"), "config.sessionStoreSecret needs config.sessionKeysSecret"),
    (merged(MINIMAL, {"metrics": {"serviceMonitor": {"enabled": True}}}), "networkPolicy.adminFrom"),
    (merged(MINIMAL, {"gatewayApi": {"enabled": True}}), "gatewayApi.gatewayRef.name is needed"),
    (merged(MINIMAL, {"api": {"enabled": True}}), "api.enabled needs config.issuer"),
    (merged(MINIMAL, {"labs": {"enabled": True}}), "labs.enabled needs labs.config"),
    (merged(MINIMAL, {"labs": {"enabled": True, "config": {"lab": {}}, "replicaCount": 2}}), "needs labs.storeSecret"),
    (merged(MINIMAL, {"labs": {"enabled": True, "config": {"lab": {}}, "storeSecret": "a",
                               "settings": {"store": "redis://h"}}}), "one of them, not both"),
    (merged(with_config(kubernetes=False), {"labs": {"enabled": True, "config": {"lab": {}}}}),
     "labs.enabled needs config.kubernetes"),
    (merged(MINIMAL, {"controller": {"enabled": True}}), "need config.groups"),
    (merged(with_config(kubernetes=False), {"controller": {"enabled": True}}), "need config.kubernetes"),
    (with_config(kubernetes=False, viewers={"enabled": True}), "need config.kubernetes"),
    (merged(MINIMAL, {"controller": {"viewers": {"enabled": True}}}), "need controller.enabled"),
    (with_config(kubernetes=False, installations={"enabled": True}), "need config.kubernetes"),
    (merged(MINIMAL, {"controller": {"installations": INSTALLATIONS}}), "need controller.enabled"),
    (merged(MINIMAL, {"controller": {"enabled": True, "installations": {"enabled": True}}}),
     "controller.installations.image.repository is needed"),
    (merged(MINIMAL, {"controller": {"idle": {"enabled": True}}}), "need controller.enabled"),
    (merged(MINIMAL, VIEWERS, {"controller": {"viewers": {"image": "a", "defaultPodFile": "/b"}}}), "one of them, not both"),
    (merged(MINIMAL, VIEWERS, {"controller": {"viewers": {"idleAfter": "30m"}}}), "needs controller.idle.enabled"),
    (merged(MINIMAL, VIEWERS, {"controller": {"idle": {"enabled": True}}}), "needs config.adminTokenSecret"),
    (merged(MINIMAL, {"demo": {"enabled": True}, "replicaCount": 2, "allowSeparateSessions": True}), "needs one replica"),
    (merged(with_config(**SIGN_IN, groups={"a": {}}), {"api": {"enabled": True, "replicaCount": 2}}),
     "needs config.sessionKeysSecret"),
    (merged(MINIMAL, {"demo": {"enabled": True}, "ingress": {"enabled": True}}), "demo.enabled needs no ingress.enabled"),
    # Unknown keys, and a value of the wrong type.
    (with_config(clientId="ludgate"), "clientId"),
    (merged(MINIMAL, {"replicas": 2}), "replicas"),
    (with_config(adminGroups=[7]), "adminGroups"),
    (merged(MINIMAL, VIEWERS, {"controller": {"viewers": {"publish": "istio"}}}), "publish"),
]
