# The last stage holds the program and its runtime files, nothing else; the stages before it compile.

# The packages below crates/ without their code: a layer that stays the same while only code changes.
FROM rust:1.95-bookworm AS manifests
COPY crates /crates
RUN find /crates -name '*.rs' -delete \
    && for package in /crates/*; do mkdir -p "$package/src" && echo '//! Empty.' > "$package/src/lib.rs"; done

FROM rust:1.95-bookworm AS build
WORKDIR /build

# Dependencies first, with an empty program: this layer is built again only when Cargo.toml or Cargo.lock
# change, not with every change of the source. --locked: the versions that were tested, or no image.
COPY Cargo.toml Cargo.lock ./
COPY --from=manifests /crates crates
# The headers are there because the lints refuse a crate without one. Cargo.toml names the tests' file; it stays as
# it is here, for nothing compiles it.
RUN mkdir -p src tests/it \
    && echo '//! Empty.' > src/lib.rs \
    && echo '//! Empty.' > tests/it/main.rs \
    && printf '//! Empty.\nfn main() {}\n' > src/main.rs \
    && cargo build --release --locked \
    && rm -r src crates

# The pages in templates/ are compiled into the program.
COPY templates templates
COPY crates crates
COPY src src
# cargo goes by the time of files, and these may be older than the empty ones above.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs \
    && cargo build --release --locked

# The C library, its companions and CA certificates; no shell and no package manager for an intruder to use.
# The same Debian release as above, so that the C library fits.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /build/target/release/ludgate /usr/local/bin/ludgate
# Whoever gets the program gets its licence.
COPY LICENSE /usr/share/doc/ludgate/copyright

# By number, so that Kubernetes can check runAsNonRoot without asking the image.
USER 65532:65532
# In a container listen.address must name this port on all addresses: "0.0.0.0:8080". The admin port is not
# named here: whoever publishes all named ports should not publish that one.
EXPOSE 8080

# The subcommand is the argument: `docker run IMAGE gateway --config FILE`. No shell stands between: SIGTERM
# reaches the program, and it drains.
ENTRYPOINT ["/usr/local/bin/ludgate"]
CMD ["--help"]
