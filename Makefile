# Commands for people and the CI. `make` alone lists the targets.

# nextest runs no documentation tests, so these are run beside it. Tests of the parts that
# LUDGATE_TEST_WITHOUT names are skipped, and counted as skipped.
ifeq ($(shell command -v cargo-nextest 2>/dev/null),)
RUN_TESTS = cargo test --no-fail-fast -- --skip kube:: --skip real_apps:: $$(tests/without.sh cargo)
else
RUN_TESTS = cargo nextest run --no-fail-fast $$(tests/without.sh nextest) && cargo test --doc --no-fail-fast
endif

# tests/install.sh installs a Node.js here if the system's is too old for the tests.
export PATH := $(CURDIR)/target/node/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo optimized test test-kube test-cluster test-apps test-long test-hub test-image install fmt lint deny docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## gateway, sign-in service and sample apps in one process; Ctrl-C stops it
	@[ -x target/quick/ludgate ] || echo 'Building Ludgate: the first time takes about five minutes on two cores, most of them for libraries.'
	cargo run --profile quick --no-default-features -- demo

# Two release builds and a training of a minute. The image has this program, and benches/scale measures it.
optimized: ## release build optimised by a profile of its own load: target/optimized/ludgate
	benches/train/run

test: install ## check format and lints, and run the tests
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	$(RUN_TESTS)

# Not part of `make test`: the first run builds a Kubernetes API server, which takes some minutes and is cached.
test-kube: ## tests with a real Kubernetes API server: catalogue, rights, chart (Debian 12, as root)
	tests/real/kube/install.sh >/dev/null
	cargo build --bins --tests
	tests/real/kube/run.sh tests/real/kube/all.sh

# Not part of `make test`: the first run builds the programs of a Kubernetes node, which takes some minutes and is cached.
test-cluster: ## tests on a whole Kubernetes cluster, with real pods (Debian 12 with cgroup v1, as root)
	tests/real/kube/install.sh cluster >/dev/null
	tests/real/kube/python_client/install.sh >/dev/null
	tests/real/kube/cloudcmd/install.sh >/dev/null
	tests/real/kube/jupyter/install.sh >/dev/null
	tests/real/kube/helm_library.sh >/dev/null
	cargo build --bins --tests
	tests/real/kube/cluster.sh --nodes 2 --hollow 2 tests/real/kube/cluster/suite.sh

# Not part of `make test`: the first run installs the apps of docs/apps.md and Envoy, which takes some minutes and is cached.
test-apps: install ## tests with real apps in a real browser, on paths and hosts, and with Envoy
	LUDGATE_APPS=$$(tests/real/apps/install.sh) cargo test --test it real_apps:: -- --nocapture --test-threads=1

# About two minutes: the same suite as in `make test`, with fifty times as many cases.
test-long: ## compare 100,000 generated messages through the gateway and directly
	LUDGATE_DIFFERENTIAL=100000 cargo test --test it differential:: -- --nocapture

# About four minutes. The first run installs two versions of JupyterHub and its proxy, which takes a minute and is cached.
test-hub: ## tests of python/ and of Ludgate as JupyterHub's proxy, with real hubs
	cargo build --bins
	python/test.sh

# Takes as long as `make optimized`. Not part of the CI.
test-image: ## build the container image, on base images made here, and run it (Debian 12, as root)
	tests/real/image/build.sh

install: ## install missing test dependencies besides Rust
	tests/install.sh

fmt: ## format the code
	cargo fmt

lint: ## check format and lints
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

deny: ## check licences, advisories and version floors of all dependencies
	@command -v cargo-deny >/dev/null || { echo 'cargo-deny is missing: cargo install --locked cargo-deny'; exit 1; }
	cargo deny check

# Written to target/ first: a failing command must not leave an empty file.
docs: ## regenerate config/ludgate.toml, config/crd and docs/configuration.md
	mkdir -p config/crd docs target
	cargo run -- config print > target/ludgate.toml
	mv target/ludgate.toml config/ludgate.toml
	cargo run -- config reference > target/configuration.md
	mv target/configuration.md docs/configuration.md
	for group in primehub.io kubeflow.org apps.kubermatic.k8c.io; do \
		cargo run -- crd print --group $$group > target/crd.yaml && mv target/crd.yaml config/crd/$$group.yaml || exit; \
	done
