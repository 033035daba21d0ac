//! The machine's wall clock jumps under a running process, by libfaketime
//! (docs/behaviour.md#sessions): sessions neither end nor live on by it, what others have signed is
//! judged by it, and nothing panics.

use std::{path::PathBuf, process::Command};

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};

use crate::support::{
    backend::Backend,
    browser::Browser,
    process,
    until::until_async,
    world::{SECRET, client, free_port},
};

/// What the wrapper of libfaketime would preload: its build with a lock (`-m`). Without one, a
/// thread can see the machine's time while another reads the file.
fn library() -> PathBuf {
    let wrapped = Command::new("faketime")
        .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
        .output();
    let wrapped = wrapped
        .expect("faketime: tests/install.sh installs it")
        .stdout;
    String::from_utf8(wrapped).expect("UTF-8").trim().into()
}

struct Site {
    process: process::Running,
    folder: tempfile::TempDir,
    _provider: DemoProvider,
    _backend: Backend,
    port: u16,
}

impl Site {
    async fn start(with_monotonic: bool) -> Site {
        let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
        let host = format!("127.0.0.1:{port}");
        let provider = DemoProvider::start(client(&host), Clock::system())
            .await
            .expect("a provider");
        let backend = Backend::start("usr").await;
        let text = format!(
            "[listen]\naddress = \"{host}\"\n[admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"http://{host}\"\n\
             [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n\
             [[apps]]\nid = \"usr\"\naccess = \"user\"\nupstream = \"http://{}\"\n\
             [[apps]]\nid = \"open\"\naccess = \"public\"\nupstream = \"http://{}\"\n",
            provider.issuer(),
            backend.address(),
            backend.address()
        );
        let (library, file) = (library(), folder.path().join("time"));
        std::fs::write(&file, "+0\n").expect("written");
        let mut variables = vec![
            ("LD_PRELOAD", library.as_os_str()),
            ("FAKETIME_TIMESTAMP_FILE", file.as_os_str()),
            ("FAKETIME_NO_CACHE", "1".as_ref()),
        ];
        if !with_monotonic {
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1".as_ref()));
        }
        let process = process::gateway_with(&variables, folder.path(), &text, port).await;
        Site {
            process,
            folder,
            _provider: provider,
            _backend: backend,
            port,
        }
    }

    fn browser(&self) -> Browser {
        Browser::new(
            ([127, 0, 0, 1], self.port).into(),
            &format!("127.0.0.1:{}", self.port),
        )
    }

    /// From now on the process sees a clock that differs so much from the machine's.
    fn jump(&self, by: &str) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, format!("{by}\n")).expect("written");
        std::fs::rename(new, self.folder.path().join("time")).expect("in place");
    }

    async fn signed_in(&self) -> Browser {
        let mut browser = self.browser();
        until_async("the provider is discovered", async || {
            browser
                .open("/oauth2/start?rd=%2Fapps%2Fusr%2F")
                .await
                .status()
                != 503
        })
        .await;
        assert_eq!(browser.sign_in("/apps/usr/", "alice").await.status(), 200);
        browser
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_jumps_ends_no_session_and_lengthens_none() {
    let mut site = Site::start(false).await;
    let mut alice = site.signed_in().await;
    for by in ["+1h", "-1h", "+1y", "-1y", "-80y", "+30"] {
        site.jump(by);
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), 200, "{by}");
        let mut other = site.browser();
        let start = other.open("/apps/usr/").await;
        let landed = other.sign_in_from(&start, "alice").await;
        // What the provider signs now is not of this time, unless the clocks differ by less than a
        // minute.
        let expected = if by == "+30" { 303 } else { 400 };
        assert_eq!(landed.status(), expected, "{by}: {}", landed.text());
    }
    site.jump("+0");
    site.signed_in().await;
    assert!(
        site.process.0.try_wait().expect("asked").is_none(),
        "it runs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_passes_in_leaps_ends_sessions_and_nothing_else() {
    let mut site = Site::start(true).await;
    let mut alice = site.signed_in().await;
    // Forward only: what a system calls monotonic does not go back.
    for (by, expected) in [("+20m", 200), ("+40m", 200), ("+2h", 401), ("+10d", 401)] {
        site.jump(by);
        // The first request after the jump may exceed a deadline, so its answer does not count.
        let _ = site.browser().fetch("/apps/open/x").await;
        assert_eq!(alice.fetch("/apps/usr/x").await.status(), expected, "{by}");
        assert_eq!(alice.fetch("/apps/open/x").await.status(), 200, "{by}");
    }
    assert!(
        site.process.0.try_wait().expect("asked").is_none(),
        "it runs"
    );
}
