//! A real HTTP client against the real binary: curl, over plain HTTP and over TLS.

use std::process::Command;

use crate::support::{
    backend::Backend,
    process::{gateway, program},
    world::free_port,
};

fn curl(arguments: &[&str]) -> (i32, String) {
    let output = Command::new("curl")
        .args(["--silent", "--include", "--max-time", "10"])
        .args(arguments)
        .output();
    let output = output.expect("curl is installed; `make test` installs it");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_reaches_a_public_app_and_is_told_how_to_reach_the_others() {
    let backend = Backend::start("app").await;
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\n[admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"http://127.0.0.1:{port}\"\n\
         [[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{0}\"\n[[apps]]\nid = \"closed\"\naccess = \"user\"\nupstream = \"http://{0}\"\n",
        backend.address()
    );
    let mut running = gateway(folder.path(), &text, port).await;
    let base = format!("http://127.0.0.1:{port}/apps");
    let (code, said) = curl(&["--data-binary", "hello", &format!("{base}/open/echo")]);
    assert!(
        code == 0 && said.starts_with("HTTP/1.1 200") && said.ends_with("hello"),
        "{code} {said}"
    );
    let (_, said) = curl(&[&format!("{base}/closed/")]);
    assert!(
        said.starts_with("HTTP/1.1 401") && said.contains("\"sign_in\""),
        "{said}"
    );
    let (_, said) = curl(&["--path-as-is", &format!("{base}/open/../closed/")]);
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // A second gateway on the same port is a mistake, not a silent sharer.
    let folder_again = tempfile::tempdir().expect("a folder");
    std::fs::write(folder_again.path().join("l.toml"), &text).expect("written");
    let second = Command::new(program())
        .args(["gateway", "--config"])
        .arg(folder_again.path().join("l.toml"))
        .output();
    let second = second.expect("the binary runs");
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr);
    for hint in ["is in use", "limits.stop_grace", "listen.takeover"] {
        assert!(said.contains(hint), "{said}");
    }
    // SIGTERM: it ends by itself, with 0.
    let id = running.0.id().to_string();
    assert!(
        Command::new("kill")
            .arg(id)
            .status()
            .expect("kill runs")
            .success()
    );
    let ended = tokio::task::spawn_blocking(move || running.0.wait().expect("it ends"))
        .await
        .expect("waited");
    assert_eq!(ended.code(), Some(0));
    let log = std::fs::read_to_string(folder.path().join("requests.log")).expect("a log");
    assert_eq!(log.lines().count(), 3, "the last line too: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_is_served_over_tls_with_the_configured_certificate() {
    let backend = Backend::start("app").await;
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let port = free_port();
    let text = format!(
        "[listen]\naddress = \"127.0.0.1:{port}\"\ntls = {{ certificate = \"tls.crt\", key = \"tls.key\" }}\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [site]\nurl = \"https://gw.test:{port}\"\n[[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
        backend.address()
    );
    let _running = gateway(folder.path(), &text, port).await;
    let resolve = format!("gw.test:{port}:127.0.0.1");
    let url = format!("https://gw.test:{port}/apps/open/x");
    let trusted = [
        "--resolve",
        &resolve,
        "--cacert",
        certificate.to_str().expect("a path"),
        &url,
    ];
    for (version, line) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        let (code, said) = curl(&[&[version], &trusted[..]].concat());
        assert!(code == 0 && said.starts_with(line), "{code} {said}");
    }
    assert_eq!(
        backend.last().header("x-forwarded-proto").as_deref(),
        Some("https")
    );
    let (code, _) = curl(&["--resolve", &resolve, &url]);
    assert_eq!(
        code, 60,
        "a certificate that is not trusted is not accepted by the client"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_as_a_balancer_names_its_client_before_http_and_before_tls() {
    let backend = Backend::start("app").await;
    for tls in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let made =
            rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).expect("a certificate");
        let certificate = folder.path().join("tls.crt");
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(
            folder.path().join("tls.key"),
            made.signing_key.serialize_pem(),
        )
        .expect("written");
        let port = free_port();
        let (listen, origin) = match tls {
            true => {
                let pair = "tls = { certificate = \"tls.crt\", key = \"tls.key\" }\n";
                (pair, format!("https://gw.test:{port}"))
            }
            false => ("", format!("http://127.0.0.1:{port}")),
        };
        let text = format!(
            "[listen]\naddress = \"127.0.0.1:{port}\"\n{listen}proxy_protocol_from = [\"127.0.0.0/8\"]\n\
             [admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"{origin}\"\n\
             [[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
            backend.address()
        );
        let _running = gateway(folder.path(), &text, port).await;
        let (url, resolve) = (
            format!("{origin}/apps/open/x"),
            format!("gw.test:{port}:127.0.0.1"),
        );
        let certificate = certificate.to_str().expect("a path");
        let plain = [
            "--resolve",
            resolve.as_str(),
            "--cacert",
            certificate,
            url.as_str(),
        ];
        let (code, said) = curl(&[&["--haproxy-protocol"], &plain[..]].concat());
        let line = if tls { "HTTP/2 200" } else { "HTTP/1.1 200" };
        assert!(code == 0 && said.starts_with(line), "{code} {said}");
        assert_eq!(
            backend.last().header("x-forwarded-for").as_deref(),
            Some("127.0.0.1")
        );
        let seen = backend.count();
        let (code, said) = curl(&plain);
        assert!(
            code != 0 && said.is_empty(),
            "without the header there is no answer: {code} {said}"
        );
        assert_eq!(backend.count(), seen);
    }
}
