"""The checks of tests/real/kube/chart.sh. Prints each failed check; the exit code is then 1."""

import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

import yaml

from helm import Helm
from chart_values import MINIMAL, NAMESPACE, PEER, REFUSED, SETS, SIGN_IN, merged, with_config

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "config/chart"
# The resources of the routes of viewers, by the value of `publish`.
ROUTES = {"virtual_service": ["virtualservices"], "http_route": ["httproutes"]}
# Kinds that have no namespace: of the webhook, and the rights to read namespaces.
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
failures = []
skipped = set()


def check(passed, what):
    if not passed:
        failures.append(what)
        print(f"FAILED: {what}")


def kubectl(*arguments, given=None):
    return subprocess.run(["kubectl", *arguments], input=given, capture_output=True, text=True)


def for_rendering(folder):
    """A copy of the chart that renders the same files into one ConfigMap. The library can install
    a chart, but not only render it, and an old server does not know all kinds."""
    copied = folder / "rendered"
    shutil.copytree(CHART, copied)
    data = []
    for template in sorted((copied / "templates").glob("*.yaml")):
        # Helm renders a file with a leading underscore only where another file includes it.
        template.rename(template.with_name("_" + template.name))
        data.append(f'  {template.name}: {{{{ include "ludgate/templates/_{template.name}" . | quote }}}}\n')
    (copied / "templates/all.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: rendered\ndata:\n" + "".join(data))
    return copied


def render(helm, chart, values):
    """The objects of the chart, in the order of its files."""
    release = helm.install("hub", chart, values)
    helm.uninstall("hub")
    texts = yaml.safe_load(release["manifest"])["data"]
    return [one for text in texts.values() for one in yaml.safe_load_all(text) if one is not None]


def pick(objects, kind, name=None):
    found = [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    return found[0] if len(found) == 1 else None


def gateway_of(objects):
    """The gateway's Deployment. Without labels of the chart there is only one."""
    component = "app.kubernetes.io/component"
    return next(one for one in objects if one["kind"] == "Deployment"
                and one["metadata"].get("labels", {}).get(component, "ludgate-gateway") == "ludgate-gateway")


def deployments(objects):
    return [one for one in objects if one["kind"] == "Deployment"]


def keys(where, value, required, allowed, what):
    check(required <= set(value) <= required | allowed, f"{what}: {where} has {sorted(value)}")


def structure(one, what):
    """Checks the structure of an object whose kind the server does not know."""
    spec = one["spec"]
    match one["apiVersion"], one["kind"]:
        case "policy/v1", "PodDisruptionBudget":
            keys("spec", spec, {"selector"}, {"minAvailable", "maxUnavailable"}, what)
            check(("minAvailable" in spec) != ("maxUnavailable" in spec), f"{what}: minAvailable or maxUnavailable, not both")
        case "autoscaling/v2", "HorizontalPodAutoscaler":
            keys("spec", spec, {"scaleTargetRef", "minReplicas", "maxReplicas", "metrics"}, {"behavior"}, what)
            keys("target", spec["scaleTargetRef"], {"apiVersion", "kind", "name"}, set(), what)
            for metric in spec["metrics"]:
                check(metric["type"] == "Resource" and metric["resource"]["target"]["type"] == "Utilization"
                      and isinstance(metric["resource"]["target"].get("averageUtilization"), int), f"{what}: metric")
        case "gateway.networking.k8s.io/v1", "HTTPRoute":
            keys("spec", spec, {"parentRefs", "hostnames", "rules"}, set(), what)
            for parent in spec["parentRefs"]:
                keys("parent", parent, {"name", "namespace"}, {"sectionName"}, what)
            for rule in spec["rules"]:
                keys("rule", rule, {"matches", "backendRefs"}, {"timeouts", "filters"}, what)
                for backend in rule["backendRefs"]:
                    keys("backend", backend, {"name", "port"}, set(), what)
        case "monitoring.coreos.com/v1", "ServiceMonitor":
            keys("spec", spec, {"selector", "endpoints", "namespaceSelector"}, set(), what)
            for endpoint in spec["endpoints"]:
                keys("endpoint", endpoint, {"port", "path", "interval", "scrapeTimeout"},
                     {"relabelings", "metricRelabelings"}, what)
        case kind:
            check(False, f"{what}: chart.py has no structure check for {kind}")


def accepted(objects, what, namespace=None):
    """Checks that the server accepts the objects of known kinds, and the others' structure."""
    known = set(kubectl("api-versions").stdout.split())
    known_objects = [one for one in objects if one["apiVersion"] in known]
    for one in objects:
        if one["apiVersion"] not in known:
            kind = f'{one["apiVersion"]} {one["kind"]}'
            skipped.add(f"{kind}: unknown to this server, so only its structure was checked")
            structure(one, what)
    # In one call, so that unknown fields and wrong types are found in all objects.
    answer = kubectl(*(("-n", namespace) if namespace else ()), "apply", "--dry-run=server", "--validate=strict",
                     "-f", "-", given="---\n".join(yaml.safe_dump(one) for one in known_objects))
    check(answer.returncode == 0, f"{what}: the server rejects it: {answer.stderr.strip()}")
    check(len(answer.stdout.splitlines()) == len(known_objects), f"{what}: {answer.stdout}")


def labels_hold(objects, what):
    """Each selector matches the pods of one Deployment, and volume mounts have volumes."""
    selects = []
    for one in objects:
        match one["kind"]:
            case "Deployment" | "PodDisruptionBudget":
                selects.append((one["kind"], one["spec"]["selector"]["matchLabels"]))
            case "Service":
                selects.append(("Service", one["spec"]["selector"]))
            case "NetworkPolicy" if not one["metadata"]["name"].endswith("-apps"):
                selects.append((one["kind"], one["spec"]["podSelector"]["matchLabels"]))
                peers = [peer for rule in one["spec"].get("ingress", []) for peer in rule.get("from", [])]
                selects += [("peer", peer["podSelector"]["matchLabels"]) for peer in peers if peer != PEER]
    pods = [one["spec"]["template"] for one in deployments(objects)]
    for kind, labels in selects:
        selected = [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]
        check(len(selected) == 1, f"{what}: {kind} selects {len(selected)} Deployments: {labels}")
    monitor = pick(objects, "ServiceMonitor")
    if monitor:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        served = [one for one in objects if one["kind"] == "Service" and wanted <= one["metadata"]["labels"].items()
                  and any(port["name"] == monitor["spec"]["endpoints"][0]["port"] for port in one["spec"]["ports"])]
        check(len(served) == 1, f"{what}: the ServiceMonitor selects one Service")
    for pod in pods:
        for container in pod["spec"]["containers"]:
            mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
            check(mounts <= {volume["name"] for volume in pod["spec"]["volumes"]}, f"{what}: a volume for each of {mounts}")


def restricted(pod, what):
    """The pod runs as non-root, without capabilities and with a read-only root file system."""
    pod_context = pod["securityContext"]
    check(pod_context["runAsNonRoot"] is True, f"{what}: runAsNonRoot")
    check(pod_context["seccompProfile"] == {"type": "RuntimeDefault"}, f"{what}: seccompProfile")
    ludgate = next(one for one in pod["containers"] if one["name"] == "ludgate")
    context = pod_context | ludgate["securityContext"]
    check((context["runAsUser"], context["runAsGroup"]) == (65532, 65532), f"{what}: the user")
    check(context["readOnlyRootFilesystem"] is True, f"{what}: readOnlyRootFilesystem")
    check(context["allowPrivilegeEscalation"] is False, f"{what}: allowPrivilegeEscalation")
    check(context["capabilities"] == {"drop": ["ALL"]}, f"{what}: capabilities")
    # 30 seconds to drain, and a reserve.
    check(pod["terminationGracePeriodSeconds"] == 45, f"{what}: terminationGracePeriodSeconds")
    paths = [ludgate[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    check(paths == [{"path": "/livez", "port": "admin"}, {"path": "/readyz", "port": "admin"}], f"{what}: probes")


def config_check(text, what, environment=()):
    """Runs `ludgate config check` with the files that the pod has."""
    program = os.environ.get("LUDGATE")
    if not program:
        skipped.add("`config check` of the configurations: LUDGATE is not set to the program")
        return
    command = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("client/client-secret", "secret"), ("admin/token", "t" * 32),
                              ("assertion-keys/assertion-keys.pem", subprocess.check_output(command, text=True)),
                              ("session-keys/session-keys", base64.b64encode(os.urandom(32)).decode()),
                              ("session-store/store", "rediss://user:password@redis.example.internal"),
                              ("viewer/pod.yaml", "containers: [{ name: main, image: browser }]")):
            path = pathlib.Path(folder, name)
            path.parent.mkdir()
            path.write_text(content + "\n")
        file = pathlib.Path(folder, "ludgate.toml")
        file.write_text(text.replace("/etc/ludgate/", folder + "/"))
        answer = subprocess.run([program, "config", "check", str(file)], capture_output=True, text=True,
                                env=os.environ | dict(environment))
        check(answer.returncode == 0, f"{what}: config check: {answer.stdout}{answer.stderr}")


def shipped(name):
    return list(yaml.safe_load_all((ROOT / "config/rbac" / name).read_text()))


def roles_hold(objects, values, what):
    """The Roles have the rules of config/rbac, and are bound to the service account of the process that needs them."""
    config, demo = values["config"], values.get("demo", {}).get("enabled", False)
    namespaces = config.get("namespaces") or [config.get("namespace", NAMESPACE)]
    fullname = values.get("fullnameOverride", "hub-ludgate")
    account = gateway_of(objects)["spec"]["template"]["spec"]["serviceAccountName"]
    installs, served = values.get("controller", {}).get("installations", {}), config.get("installations", {})
    viewers, publish = config.get("viewers", {}), values.get("controller", {}).get("viewers", {}).get("publish")
    # The file if it has another name, its Role, the rules of it that the values need, and the account.
    for file, name, wanted, subject in (
            (None, "gateway", config.get("kubernetes", True), account), (None, "logs", config.get("logs", False), account),
            (None, "controller", demo or bool(values.get("controller", {}).get("enabled") and config.get("groups")),
             "hub-ludgate-controller"),
            (None, "viewers", values.get("controller", {}).get("viewers", {}).get("enabled", False), "hub-ludgate-controller"),
            (None, "viewer-routes", publish in ROUTES, "hub-ludgate-controller"),
            ("viewers", "gateway-viewers", viewers.get("enabled", False), account),
            (None, "installations", installs.get("enabled", False), "hub-ludgate-controller"),
            ("installations", "gateway-installations", served.get("enabled", False), account),
            (None, "template-import", values.get("api", {}).get("templateImport", False), "hub-ludgate-api"),
            (None, "api", demo or values.get("api", {}).get("enabled", False), account if demo else "hub-ludgate-api")):
        roles = [one for one in objects if one["kind"] == "Role" and one["metadata"]["name"] == f"{fullname}-{name}"]
        check(sorted(role["metadata"]["namespace"] for role in roles) == (sorted(namespaces) if wanted else []),
              f"{what}: a Role {name} in each namespace")
        for role in roles:
            rules = pick(shipped(f"{file or name}.yaml"), "Role", f"ludgate-{name}")["rules"]
            if name == "viewer-routes":
                rules = [rule for rule in rules if rule["resources"] == ROUTES[publish]]
            check(role["rules"] == rules, f"{what}: the rules of {name}")
            bindings = [one for one in objects if one["kind"] == "RoleBinding"
                        and one["roleRef"]["name"] == role["metadata"]["name"]
                        and one["metadata"]["namespace"] == role["metadata"]["namespace"]]
            check([one["subjects"] for one in bindings] ==
                  [[{"kind": "ServiceAccount", "name": subject, "namespace": NAMESPACE}]], f"{what}: binding of {name}")
    webhook = values.get("controller", {}).get("webhook", {}).get("enabled", False)
    for kind, own, chart_name in (("Role", "ludgate-webhook", "hub-ludgate-webhook"),
                                  ("ClusterRole", "ludgate", f"hub-ludgate-webhook-{NAMESPACE}")):
        role = pick(objects, kind, chart_name)
        wanted = pick(shipped("webhook.yaml"), kind)["rules"]
        for rule in wanted:
            rule["resourceNames"] = [chart_name if name == own else name for name in rule["resourceNames"]]
        check((role["rules"] == wanted) if webhook else role is None, f"{what}: the {kind} of the webhook")
    settings = installs.get("settings", {})
    for name, wanted, wide in (("installations", installs.get("enabled"), settings.get("all_namespaces")),
                               ("gateway-installations", served.get("enabled"), served.get("allNamespaces"))):
        role = pick(objects, "ClusterRole", f"{fullname}-{name}-{NAMESPACE}")
        if not wanted:
            check(role is None, f"{what}: no ClusterRole {name}")
            continue
        rules = pick(shipped("installations.yaml"), "ClusterRole", f"ludgate-{name}")["rules"]
        for rule in rules:
            if rule["verbs"] == ["bind"]:
                rule["resourceNames"] = [settings.get("cluster_role", "admin")]
        if wide:
            own = pick(shipped("installations.yaml"), "Role", f"ludgate-{name}")["rules"]
            rules += [rule for rule in own if rule["resources"][0].split("/")[0] in ("applicationinstallations", "events")]
        check(role["rules"] == rules, f"{what}: the rules of the ClusterRole {name}: {role['rules']}")
        binding = pick(objects, "ClusterRoleBinding", f"{fullname}-{name}-{NAMESPACE}")
        subject = account if name.startswith("gateway") else "hub-ludgate-controller"
        check(binding["subjects"] == [{"kind": "ServiceAccount", "name": subject, "namespace": NAMESPACE}],
              f"{what}: binding of the ClusterRole {name}")
    role = pick(objects, "ClusterRole", f"hub-ludgate-viewer-namespaces-{NAMESPACE}")
    wanted = pick(shipped("viewer-namespaces.yaml"), "ClusterRole")["rules"]
    wanted[0]["resourceNames"] = namespaces
    by_namespace = "{label:" in viewers.get("access", "")
    check((role["rules"] == wanted) if by_namespace else role is None, f"{what}: the ClusterRole of the namespaces")
    labs = values.get("labs", {}).get("enabled", False)
    for kind, chart_name, namespace in (("Role", "hub-ludgate-labs", namespaces[0]),
                                        ("ClusterRole", f"hub-ludgate-labs-{NAMESPACE}", None)):
        role = pick(objects, kind, chart_name)
        check((role["rules"] == pick(shipped("labs.yaml"), kind)["rules"]) if labs else role is None,
              f"{what}: the {kind} of the labs")
        check(not labs or role["metadata"].get("namespace") == namespace, f"{what}: where the {kind} of the labs is")
        binding = pick(objects, f"{kind}Binding", chart_name)
        check(not labs or binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "hub-ludgate-labs", "namespace": NAMESPACE}], f"{what}: its {kind}Binding")
    role, binding = (pick(objects, kind, f"hub-ludgate-gateway-labs-{NAMESPACE}")
                     for kind in ("ClusterRole", "ClusterRoleBinding"))
    if labs and "gateway" in values["labs"].get("settings", {}):
        check(role["rules"] == pick(shipped("gateway-labs.yaml"), "ClusterRole")["rules"], f"{what}: where labs are")
        check(binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}], f"{what}: the gateway knows it")
    else:
        check(role is None and binding is None, f"{what}: the gateway does not know where labs are")
    used = {one["spec"]["template"]["spec"]["serviceAccountName"] for one in deployments(objects)}
    made = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    check(made <= used, f"{what}: service accounts without a pod: {made - used}")


def check_set(helm, chart, what, values, wanted):
    objects = render(helm, chart, values)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    check(len(names) == len(set(names)), f"{what}: names are unique: {names}")
    wide = {kind for kind, namespace, _ in names if not namespace}
    check(wide <= CLUSTER_WIDE, f"{what}: objects without a namespace: {wide}")
    text = pick(objects, "ConfigMap")["data"]["ludgate.toml"]
    check(tomllib.loads(text) == wanted, f"{what}: ludgate.toml is\n{text}")
    pod = gateway_of(objects)["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value", "from-a-secret") for one in pod["containers"][0].get("env", [])}
    config_check(text, what, environment)
    accepted(objects, what)
    labels_hold(objects, what)
    for one in deployments(objects):
        restricted(one["spec"]["template"]["spec"], f"{what}: {one['metadata']['name']}")
    roles_hold(objects, values, what)
    check(pod["automountServiceAccountToken"] is values["config"].get("kubernetes", True), f"{what}: automountServiceAccountToken")
    return objects


def details(sets):
    """Effects of single values outside the configuration file."""
    minimal, everything = sets["minimal"], sets["everything"]
    kinds = sorted(one["kind"] for one in minimal)
    check(kinds == ["ConfigMap", "Deployment", "NetworkPolicy", "Role", "RoleBinding", "Service", "ServiceAccount"],
          f"minimal: {kinds}")
    check(gateway_of(minimal)["spec"]["replicas"] == 1, "minimal: one replica")
    rules = pick(minimal, "NetworkPolicy")["spec"]["ingress"]
    check(rules == [{"ports": [{"port": "http"}]}], f"minimal: the http port is open to all, the admin port to no peer: {rules}")

    rules = pick(everything, "NetworkPolicy", "hub-ludgate")["spec"]["ingress"]
    check(rules == [{"ports": [{"port": port}], "from": [PEER]} for port in ("http", "admin")], f"everything: {rules}")
    deployment = gateway_of(everything)
    check("replicas" not in deployment["spec"], "everything: the autoscaler sets the replicas")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    check(labels["app.kubernetes.io/name"] == "primehub-console", "everything: podLabels change the name")
    check(labels["app.kubernetes.io/instance"] == "hub", "everything: podLabels do not change selector labels")
    check(gateway_of(minimal)["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] == "ludgate",
          "minimal: the console's label only with podLabels")
    hosts = ["hub.example.com", "*.apps.example.net"]
    check([rule["host"] for rule in pick(everything, "Ingress")["spec"]["rules"]] == hosts, "everything: hosts")
    check(pick(everything, "HTTPRoute")["spec"]["hostnames"] == hosts, "everything: hostnames")
    check(pick(everything, "Secret") is None, "everything: the Secret exists already")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    check(image == "registry.example.com/ludgate:1.2.3", f"everything: {image}")

    # In the gateway's namespace, the policy admits it by labels; in others, also by namespace.
    for what, namespace in (("everything", NAMESPACE), ("everything", NAMESPACE + "-b"),
                            ("apps of another namespace", NAMESPACE + "-b")):
        policy = next(one for one in sets[what] if one["kind"] == "NetworkPolicy"
                      and one["metadata"]["name"] == "hub-ludgate-apps" and one["metadata"]["namespace"] == namespace)
        check(policy["spec"]["podSelector"] == {"matchLabels": {"app": "primehub-app"}}, f"{what}: the apps")
        (rule,) = policy["spec"]["ingress"]
        gateway, console = rule["from"]
        from_where = gateway.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
        check(from_where == (None if namespace == NAMESPACE else NAMESPACE), f"{what}: {from_where} to {namespace}")
        check(console == {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "primehub-console"}}}, what)

    pod = gateway_of(sets["client ID and secret in an existing Secret"])["spec"]["template"]["spec"]
    check(pod["containers"][0]["env"] == [{
        "name": "LUDGATE_IDENTITY__CLIENT_ID",
        "valueFrom": {"secretKeyRef": {"name": "hub-client", "key": "client-id"}}}], "the client ID is read from a Secret")
    secret = pick(sets["a Secret of the chart"], "Secret")
    check(secret["stringData"] == {"client-secret": 'quote " and $'}, "the client's secret, byte for byte")
    secret = pick(sets["keys of assertions, made by the chart"], "Secret", "hub-ludgate-assertion-keys")
    pem = base64.b64decode(secret["data"]["assertion-keys.pem"])
    answer = subprocess.run(["openssl", "pkey", "-noout", "-text"], input=pem, capture_output=True)
    check(b"prime256v1" in answer.stdout, f"the key of assertions: {answer}")
    for what, name in (("keys of assertions, made by the chart", "hub-ludgate-assertion-keys"),
                       ("keys of assertions in an existing Secret", "hub-assertions")):
        volumes = gateway_of(sets[what])["spec"]["template"]["spec"]["volumes"]
        check([one["secret"]["secretName"] for one in volumes if one["name"] == "assertion-keys"] == [name], what)
    budget = pick(sets["no Kubernetes"], "PodDisruptionBudget")["spec"]
    check(budget.get("minAvailable") == 0 and "maxUnavailable" not in budget, "minAvailable: 0 is a value")
    check(pick(sets["several replicas"], "Deployment", "gate")["spec"]["replicas"] == 3, "several replicas")

    processes = sets["a controller and an API"]
    arguments = {one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"][0]
                 for one in deployments(processes)}
    check(arguments == {"hub-ludgate": "gateway", "hub-ludgate-controller": "controller", "hub-ludgate-api": "api"},
          f"three processes: {arguments}")
    check(pick(processes, "Service", "hub-ludgate-api")["spec"]["ports"][0]["port"] == 8082, "the API's Service")
    controller = pick(processes, "Deployment", "hub-ludgate-controller")["spec"]["template"]["spec"]
    check([volume["name"] for volume in controller["volumes"]] == ["config"], "the controller has no secret")
    check("env" not in controller["containers"][0], "the controller has no variables of the gateway")
    api = pick(processes, "Deployment", "hub-ludgate-api")["spec"]["template"]["spec"]
    check([volume["name"] for volume in api["volumes"]] == ["config", "client", "session-keys"],
          "the API has the files of sign-in, and not the address of Redis")
    component = "app.kubernetes.io/component"
    for name, rules in (("api", ["http", "admin"]), ("controller", ["admin"])):
        policy = pick(processes, "NetworkPolicy", f"hub-ludgate-{name}")["spec"]
        check(policy["podSelector"]["matchLabels"][component] == f"ludgate-{name}", f"{name}: its policy")
        ports = [rule["ports"][0]["port"] for rule in policy["ingress"]]
        check(ports == rules, f"{name}: its policy admits {ports}")
    service = pick(processes, "Service", "hub-ludgate-api")["spec"]["selector"]
    check(service[component] == "ludgate-api", "the API's Service selects the API")
    (peer,) = pick(processes, "NetworkPolicy", "hub-ludgate-api")["spec"]["ingress"][0]["from"]
    check(peer["podSelector"]["matchLabels"][component] == "ludgate-gateway", "only the gateway calls the API")
    labs = pick(sets["labs"], "Deployment", "hub-ludgate-labs")["spec"]["template"]["spec"]
    check(labs["containers"][0]["args"][0] == "labs", "labs: the command")
    check([volume["name"] for volume in labs["volumes"]] == ["config"], "the labs have no secret")
    shared = pick(sets["labs on several replicas"], "Deployment", "hub-ludgate-labs")["spec"]
    volumes = [volume["name"] for volume in shared["template"]["spec"]["volumes"]]
    check((shared["replicas"], volumes) == (2, ["config", "lab-store"]), f"labs that share a store: {volumes}")
    written = yaml.safe_load(pick(sets["labs"], "ConfigMap")["data"]["labs.yaml"])
    check(written == {"lab": {"sizes": []}, "images": {}}, f"labs: labs.yaml is {written}")
    peers = pick(sets["labs"], "NetworkPolicy", "hub-ludgate-labs")["spec"]["ingress"][0]["from"]
    check(len(peers) == 2 and peers[1] == PEER, f"labs: the gateway and the hub may connect: {peers}")
    viewers = sets["viewers, and unused ones are stopped"]
    rules = pick(viewers, "NetworkPolicy", "hub-ludgate")["spec"]["ingress"]
    (ports, (prometheus, controller)) = (rules[1]["ports"], rules[1]["from"])
    check(ports == [{"port": "admin"}] and prometheus == PEER
          and controller["podSelector"]["matchLabels"][component] == "ludgate-controller", f"viewers: {rules}")
    service = pick(viewers, "Service", "hub-ludgate-admin")["spec"]
    check((service["clusterIP"], service["selector"][component]) == ("None", "ludgate-gateway"), f"viewers: {service}")
    volumes = pick(viewers, "Deployment", "hub-ludgate-controller")["spec"]["template"]["spec"]["volumes"]
    check([volume["name"] for volume in volumes] == ["config", "admin"], "the controller has the token of the gateway")
    elsewhere = sets["viewers without apps, published by Istio"]
    check(pick(elsewhere, "Service", "hub-ludgate-admin") is None, "gateways elsewhere need no Service")
    check(len(pick(elsewhere, "NetworkPolicy", "hub-ludgate")["spec"]["ingress"]) == 1, "nor a rule of the policy")
    validating, apps = "ValidatingWebhookConfiguration", ["validate phapplications", "warn phapptemplates"]
    charts = ["validate applicationdefinitions", "validate applicationinstallations"]
    for what, wanted in (("a controller with a webhook", apps),
                         ("viewers, and unused ones are stopped", [apps[0], "validate pvcviewers", apps[1]]),
                         ("viewers without apps, published by Istio", ["validate pvcviewers"]),
                         ("installations with a webhook", charts)):
        found = [f'{webhook["name"].split(".")[0]} {rule["resources"][0]}'
                 for webhook in pick(sets[what], validating)["webhooks"] for rule in webhook["rules"]]
        check(found == wanted, f"{what}: {found}")
        rules = [rule for webhook in pick(sets[what], validating)["webhooks"] for rule in webhook["rules"]]
        known = [rule for one in shipped("../webhook.yaml") for webhook in one.get("webhooks", []) for rule in webhook["rules"]]
        check(all(rule in known for rule in rules), f"{what}: rules of config/webhook.yaml")
        mutating = pick(sets[what], "MutatingWebhookConfiguration")
        defaulted = [rule for webhook in (mutating or {"webhooks": []})["webhooks"] for rule in webhook["rules"]]
        check(all(rule in known for rule in defaulted), f"{what}: rules of config/webhook.yaml")
        found = [f'validate {rule["resources"][0]}' for rule in defaulted]
        check(found == [one for one in wanted if one in (apps[0], *charts)], f"{what}: defaults of {found}")
    demo = gateway_of(sets["demo"])["spec"]["template"]["spec"]["containers"]
    check([one["name"] for one in demo] == ["ludgate", "provider"], "demo: the provider is in the gateway's pod")
    listens = [one for one in demo[1]["args"] if one.startswith("--listen")]
    check(listens == ["--listen=127.0.0.1:8081"], f"demo: the provider is on loopback: {listens}")
    templates = sorted(one["metadata"]["name"] for one in sets["demo"] if one["kind"] == "PhAppTemplate")
    check(templates == ["chat", "whoami"], f"demo: {templates}")


def rolls(helm, chart):
    """The pods are replaced if and only if their configuration has changed."""
    def checksum(values):
        pod = gateway_of(render(helm, chart, values))["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/config"]

    before = checksum(with_config(**SIGN_IN, clientSecret="a"))
    elsewhere = merged(with_config(**SIGN_IN, clientSecret="a"), {"service": {"portNumber": 81}})
    check(before == checksum(elsewhere), "a value that is not in the configuration does not roll the pods")
    # Users who may read pods could test guessed secrets against a checksum.
    check(before == checksum(with_config(**SIGN_IN, clientSecret="b")), "the checksum does not cover the secret")
    check(before != checksum(with_config(**SIGN_IN, clientSecret="a", appsPrefix="/x")), "a changed setting rolls the pods")


def installed(helm):
    """Helm installs the unchanged chart. With minimal values, every server knows all its kinds."""
    helm.install("gate", CHART, MINIMAL)
    for kind in ("deployment/gate-ludgate", "service/gate-ludgate", "configmap/gate-ludgate",
                 "serviceaccount/gate-ludgate", "networkpolicy/gate-ludgate", "role/gate-ludgate-gateway",
                 "rolebinding/gate-ludgate-gateway"):
        check(kubectl("-n", NAMESPACE, "get", kind).returncode == 0, f"installed: {kind}")
    account = f"--as=system:serviceaccount:{NAMESPACE}:gate-ludgate"
    for answer, verb, resource in (("yes", "watch", "phapplications.primehub.io"),
                                   ("yes", "list", "endpointslices.discovery.k8s.io"), ("no", "get", "secrets")):
        output = kubectl("-n", NAMESPACE, "auth", "can-i", verb, resource, account).stdout.strip()
        check(output == answer, f"installed: {verb} {resource}: {output}")
    helm.uninstall("gate")
    check(kubectl("-n", NAMESPACE, "get", "deployment/gate-ludgate").returncode != 0, "uninstalled")


def sidecar():
    """Checks config/examples/sidecar.yaml and the Roles that it needs."""
    what = "sidecar.yaml"
    objects = list(yaml.safe_load_all((ROOT / "config/examples/sidecar.yaml").read_text()))
    accepted(objects, what, NAMESPACE)
    for name in ("gateway.yaml", "logs.yaml"):
        accepted(shipped(name), name, NAMESPACE)
    labels_hold(objects, what)
    deployment = gateway_of(objects)
    pod = deployment["spec"]["template"]["spec"]
    restricted(pod, what)
    account = pick(shipped("gateway.yaml"), "ServiceAccount")["metadata"]["name"]
    check(pod["serviceAccountName"] == account, f"{what}: the service account of gateway.yaml")
    service = pick(objects, "Service")["spec"]["ports"]
    check([port["targetPort"] for port in service] == ["http"], f"{what}: the Service targets only Ludgate")
    text = pick(objects, "ConfigMap")["data"]["ludgate.toml"]
    config = tomllib.loads(text)
    check(config["site"]["apps_prefix"] == "/console/apps", f"{what}: apps_prefix")
    check(config["session"]["cookie"] == "phapplication-session-id", f"{what}: cookie")
    check(config["identity"]["access_token_cookie"] in config["site"]["console_cookies"], f"{what}: access_token_cookie is one of console_cookies")
    ports = [config[listener]["address"].rpartition(":")[2] for listener in ("listen", "admin")]
    check(ports == ["8080", "9090"], f"{what}: ports {ports}")
    config_check(text, what)


def documented(helm, chart):
    """The values that docs/apps-on-kubernetes.md has for a real provider. Its commands are tested on a whole cluster."""
    what = "docs/apps-on-kubernetes.md"
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / what).read_text(), re.MULTILINE | re.DOTALL)
    check(len(blocks) == 1, f"{what}: one block of values, not {len(blocks)}")
    for block in blocks:
        objects = render(helm, chart, yaml.safe_load(block))
        config_check(pick(objects, "ConfigMap")["data"]["ludgate.toml"], what)
        accepted(objects, what)
        labels_hold(objects, what)
        names = {one["metadata"]["name"] for one in deployments(objects)}
        check(names == {"hub-ludgate", "hub-ludgate-controller", "hub-ludgate-api"}, f"{what}: {names}")


def run(folder):
    helm = Helm(folder, NAMESPACE)
    print(f"Helm library {helm.version()}")
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    check(about["appVersion"] == cargo, f"Chart.yaml: appVersion is the program's, {cargo}")
    linted = folder / "linted"
    shutil.copytree(CHART, linted)
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), MINIMAL)
    (linted / "values.yaml").write_text(yaml.safe_dump(values))
    found = helm.lint(linted)
    # Severity 1 is information (an icon is recommended), 2 a warning.
    check(found["Errors"] is None and all(one["Severity"] < 2 for one in found["Messages"] or []), f"lint: {found}")

    chart = for_rendering(folder)
    sets = {}
    for what, (values, wanted) in SETS.items():
        sets[what] = check_set(helm, chart, what, values, wanted)
        print(f"rendered: {what}: {len(sets[what])} objects")
    details(sets)
    documented(helm, chart)
    rolls(helm, chart)
    for values, message in REFUSED:
        try:
            render(helm, chart, values)
            check(False, f"accepted, but should fail with {message!r}")
        except Helm.Refused as refused:
            check(message in str(refused), f"failed, but without {message!r}: {refused}")
    print(f"rejected as expected: {len(REFUSED)} sets of values")
    installed(helm)
    sidecar()


with tempfile.TemporaryDirectory() as folder:
    namespaces = [NAMESPACE, NAMESPACE + "-b"]
    for namespace in namespaces:
        kubectl("create", "namespace", namespace)
    try:
        run(pathlib.Path(folder))
    finally:
        kubectl("delete", "namespace", "--wait=false", *namespaces)
for one in sorted(skipped):
    print(f"skipped: {one}")
print(f"{len(failures)} failed" if failures else "all checks passed")
sys.exit(bool(failures))
