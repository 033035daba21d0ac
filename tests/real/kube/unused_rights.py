"""Compares the rights that config/rbac grants with those that a suite of tests used, by the audit log of its API server:

  unused_rights.py AUDIT_LOG SUITE      # SUITE is `cluster` or `kube`

Prints each verb that is granted but was never used; the exit code is then 1. A missing verb needs no check: the tests
run with these rights, and fail without it. The chart's rights are the same (chart.py).
"""

import argparse
import itertools
import json
import pathlib
import sys

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "config/rbac"
# The files whose rights the suite `cluster` uses. The suite `kube` uses those of all others.
OF_CLUSTER = {"api.yaml", "controller.yaml", "gateway.yaml", "labs.yaml", "logs.yaml",
              "viewers.yaml", "viewer-namespaces.yaml"}
# Rights that no request shows, and why they are granted: file, account, API group, resource, verb.
EXCEPTIONS = {
    ("controller.yaml", "ludgate-controller", "primehub.io", "phapplications/finalizers", "update"):
        "OwnerReferencesPermissionEnforcement checks it. This admission plugin is off by default.",
    ("viewers.yaml", "ludgate-controller", "kubeflow.org", "pvcviewers/finalizers", "update"):
        "As that of controller.yaml.",
}
EXCEPTIONS |= {
    ("labs.yaml", "ludgate-labs", group, resource, verb):
        "File servers. Their tests are in the suite `kube`, with these rights."
    for group, resource, verbs in (
        ("", "persistentvolumeclaims", "list watch delete"), ("", "services", "list watch delete"),
        ("batch", "jobs", "list watch create patch delete"),
        ("networking.k8s.io", "networkpolicies", "list watch delete"))
    for verb in verbs.split()
}

EXCEPTIONS |= {
    ("installations.yaml", "ludgate", group, resource, verb):
        "A gateway that publishes installed apps is tested in the suite `cluster`, with these rights."
    for group, resource in (("", "services"), ("apps.kubermatic.k8c.io", "applicationdefinitions"),
                            ("apps.kubermatic.k8c.io", "applicationinstallations"))
    for verb in ("list", "watch")
}
EXCEPTIONS[("installations.yaml", "ludgate-controller", "rbac.authorization.k8s.io", "clusterroles", "bind")] = (
    "No request has this verb: the API server checks it when a RoleBinding is written.")


# Rights that some runs of the suite use and others do not, and why: as above.
SOMETIMES = {
    ("labs.yaml", "ludgate-labs", "", "serviceaccounts", "list"):
        "Only a lab that is faster than the controller of ServiceAccounts waits for its account.",
    ("labs.yaml", "ludgate-labs", "", "serviceaccounts", "watch"): "As the list.",
}


def granted(path):
    """The rights of a file, for the accounts that its bindings name."""
    objects = [one for one in yaml.safe_load_all(path.read_text()) if one]
    rules = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in objects if "rules" in one}
    rights = set()
    for binding in (one for one in objects if "roleRef" in one):
        accounts = [subject["name"] for subject in binding["subjects"]]
        for rule in rules[binding["roleRef"]["kind"], binding["roleRef"]["name"]]:
            rights |= set(itertools.product([path.name], accounts, rule["apiGroups"], rule["resources"], rule["verbs"]))
    return rights


def used(log):
    """The rights that the requests needed, of accounts in all namespaces: account, API group, resource, verb."""
    rights = set()
    with open(log) as lines:
        for line in lines:
            if not line.endswith("\n"):
                # A process that still runs is writing it.
                break
            event = json.loads(line)
            about = event.get("objectRef", {})
            account = event["user"]["username"].rpartition(":")[2]
            resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            verbs = [event["verb"]]
            # Server-side apply of a new object needs `create` too.
            if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201:
                verbs.append("create")
            rights |= {(account, about.get("apiGroup", ""), resource, verb) for verb in verbs}
    return rights


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("audit_log")
    parser.add_argument("suite", choices=["cluster", "kube"])
    arguments = parser.parse_args()
    needed = used(arguments.audit_log)
    files = [path for path in sorted(FOLDER.glob("*.yaml"))
             if (path.name in OF_CLUSTER) == (arguments.suite == "cluster")]
    failed = False
    for path in files:
        rights = granted(path)
        unused = {right for right in rights if right[1:] not in needed and right not in SOMETIMES}
        exceptions = {right for right in EXCEPTIONS if right[0] == path.name}
        for name, account, group, resource, verb in sorted(unused - exceptions):
            print(f"config/rbac/{name}: no test used `{verb} {'/'.join(filter(None, (group, resource)))}` of {account}")
        for right in sorted(exceptions - unused):
            print(f"unused_rights.py: not granted, or used after all, so no exception: {' '.join(right)}")
        failed = failed or unused != exceptions
        print(f"config/rbac/{path.name}: {len(rights - unused)} of {len(rights)} verbs used, {len(exceptions)} exceptions")
    sys.exit(failed)


if __name__ == "__main__":
    main()
