# The last stage contains only the program and its runtime files. The stages before it compile.

# Where the target `installs` gets Helm from: a build context or an image.
ARG HELM_IMAGE=helm

# The packages in crates/ without their code: this layer stays cached while only code changes.
FROM rust:1.95-bookworm AS manifests
COPY crates /crates
RUN find /crates -name '*.rs' -delete \
    && for package in /crates/*; do mkdir -p "$package/src" && echo '//! Empty.' > "$package/src/lib.rs"; done

FROM rust:1.95-bookworm AS build
# For benches/train/run: h2load makes the load, and llvm-profdata must match the compiler's LLVM.
# Debian keeps one version of a package, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends llvm-22 nghttp2-client \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build

# The dependencies of the instrumented program first, with an empty program: this layer is rebuilt only when
# Cargo.toml, Cargo.lock or the training change. The optimised program compiles them again, by the profile.
# --locked: the build fails rather than use other versions than the tested ones.
COPY Cargo.toml Cargo.lock ./
COPY --from=manifests /crates crates
COPY benches/train benches/train
# The lints refuse a crate without a header. Cargo.toml names the tests' file, so it must exist; nothing compiles it.
RUN mkdir -p src tests/it \
    && echo '//! Empty.' > src/lib.rs \
    && echo '//! Empty.' > tests/it/main.rs \
    && printf '//! Empty.\nfn main() {}\n' > src/main.rs \
    && benches/train/run instrumented \
    && rm -r src crates

# The program embeds the pages in templates/.
COPY templates templates
COPY crates crates
COPY src src
# cargo compares modification times, and these files may be older than the empty ones above. The training is on loopback.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs \
    && benches/train/run

# For `ludgate controller` with installations: Helm, git, ssh and prlimit, which the gateway's image must not have.
# Debian has no Helm, so its unpacked release is a build context:
# `docker build --target installs --build-context helm=linux-amd64 .`, or an image with it is named by HELM_IMAGE and
# HELM_PATH.
FROM ${HELM_IMAGE} AS helm-program

FROM debian:bookworm-slim AS installs
# Debian keeps one version of a package, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git openssh-client util-linux \
    && rm -rf /var/lib/apt/lists/*
ARG HELM_PATH=/helm
COPY --from=helm-program ${HELM_PATH} /usr/local/bin/helm
COPY --from=build /build/target/optimized/ludgate /usr/local/bin/ludgate
COPY LICENSE /usr/share/doc/ludgate/copyright
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/ludgate"]
CMD ["--help"]

# Contains the C library, its companions and CA certificates. It has no shell and no package manager, which limits an
# intruder. The Debian release is the same as above, so that the C library matches.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /build/target/optimized/ludgate /usr/local/bin/ludgate
# The licence must accompany the program.
COPY LICENSE /usr/share/doc/ludgate/copyright

# Numeric, so that Kubernetes can verify runAsNonRoot without reading the image.
USER 65532:65532
# In a container, listen.address must have this port on all addresses: "0.0.0.0:8080". The admin port is not exposed
# here, so that `docker run -P` does not publish it.
EXPOSE 8080

# The subcommand is the argument: `docker run IMAGE gateway --config FILE`. There is no shell in between, so SIGTERM
# reaches the program and starts its drain.
ENTRYPOINT ["/usr/local/bin/ludgate"]
CMD ["--help"]
