//! A Helm repository on loopback with the charts of the tests, which can be unavailable. It is an
//! OCI registry too.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};

use super::{helm::charts, web_chart::write_web_chart};

/// The charts without pods: folder, name and version.
const CHARTS: [(&str, &str, &str); 4] = [
    ("example-0.1.0", "example", "0.1.0"),
    ("example-0.2.0", "example", "0.2.0"),
    ("cluster-role", "cluster-role", "0.1.0"),
    ("workload", "workload", "0.1.0"),
];
/// The chart with pods: names and versions.
const WEB_CHARTS: [ChartName; 2] = [("web", "0.1.0"), ("web", "0.2.0")];

/// Name and version.
pub type ChartName = (&'static str, &'static str);

pub struct ChartRepository {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    is_down: AtomicBool,
    /// The heads of all requests.
    heads: Mutex<Vec<String>>,
}

/// A chart and its archive.
struct PackedChart {
    name: ChartName,
    archive: Vec<u8>,
}

impl ChartRepository {
    pub async fn start() -> ChartRepository {
        let mut packed = pack_web_charts(&WEB_CHARTS).await;
        for (directory, name, version) in CHARTS {
            packed.push(PackedChart {
                name: (name, version),
                archive: archive(&charts(), directory, name).await,
            });
        }
        ChartRepository::serve(&packed).await
    }

    /// One with the chart with pods alone, under these names and versions.
    pub async fn of_web_charts(names: &[ChartName]) -> ChartRepository {
        ChartRepository::serve(&pack_web_charts(names).await).await
    }

    async fn serve(packed: &[PackedChart]) -> ChartRepository {
        let mut files = BTreeMap::new();
        let mut entries = BTreeMap::<&str, String>::new();
        for chart in packed {
            let (name, version) = chart.name;
            let file = format!("{name}-{version}.tgz");
            *entries.entry(name).or_default() += &format!(
                "  - apiVersion: v2\n    name: {name}\n    version: {version}\n    urls: [{file}]\n"
            );
            files.insert(format!("/{file}"), chart.archive.clone());
            files.extend(registry_files(chart));
        }
        let mut index = String::from("apiVersion: v1\nentries:\n");
        for (name, versions) in entries {
            index += &format!("  {name}:\n{versions}");
        }
        files.insert("/index.yaml".to_owned(), index.into_bytes());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            files,
            ..Shared::default()
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, serving.clone()));
            }
        });
        ChartRepository { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same charts as a registry without TLS.
    pub fn oci_url(&self) -> String {
        format!("oci://{}/charts", self.address)
    }

    /// Whether each request gets 503.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::Release);
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().expect("not poisoned").clone()
    }
}

async fn pack_web_charts(names: &[ChartName]) -> Vec<PackedChart> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut packed = Vec::new();
    for &(name, version) in names {
        let directory = format!("{name}-{version}");
        write_web_chart(&folder.path().join(&directory), name, version);
        packed.push(PackedChart {
            name: (name, version),
            archive: archive(folder.path(), &directory, name).await,
        });
    }
    packed
}

/// The chart of a folder as an archive, in a folder of the chart's name.
async fn archive(parent: &Path, directory: &str, name: &str) -> Vec<u8> {
    let packed = Command::new("tar")
        .args(["-czf", "-"])
        .arg(format!("--transform=s,^{directory},{name},"))
        .arg("-C")
        .arg(parent)
        .arg(directory)
        .output();
    let packed = packed.await.expect("tar");
    assert!(packed.status.success());
    packed.stdout
}

/// The manifest and the layer of a chart, as Helm pushes them to a registry.
fn registry_files(chart: &PackedChart) -> [(String, Vec<u8>); 2] {
    let (name, version) = chart.name;
    let layer = sha256(&chart.archive);
    let manifest = json!({
        "schemaVersion": 2,
        "config": {
            "mediaType": "application/vnd.cncf.helm.config.v1+json",
            "digest": format!("sha256:{}", sha256(b"{}")),
            "size": 2,
        },
        "layers": [{
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "digest": format!("sha256:{layer}"),
            "size": chart.archive.len(),
        }],
    });
    let manifest = manifest.to_string().into_bytes();
    let below = format!("/v2/charts/{name}");
    [
        (format!("{below}/manifests/{version}"), manifest),
        (
            format!("{below}/blobs/sha256:{layer}"),
            chart.archive.clone(),
        ),
    ]
}

/// SHA-256 as hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

async fn answer(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).expect("text");
    let target = head.split(' ').nth(1).expect("a target").to_owned();
    // Before the head is known: a test may then end the outage.
    let is_down = shared.is_down.load(Ordering::Acquire);
    shared.heads.lock().expect("not poisoned").push(head);
    let (status, body) = match shared.files.get(&target) {
        _ if is_down => ("503 Service Unavailable", &[][..]),
        Some(body) => ("200 OK", &body[..]),
        None => ("404 Not Found", &[][..]),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    if stream.write_all(head.as_bytes()).await.is_ok() {
        let _ = stream.write_all(body).await;
    }
}
