//! What must hold after every test with raw bytes, whatever was sent.

use super::{browser::From, world::World};

impl World {
    /// O2 and O7 alone, where a test makes more requests than one would look up in the log.
    pub async fn check_oracles_of_framing(&self) {
        for request in self.backends().flat_map(|backend| backend.seen()) {
            let framings =
                request.all("content-length").len() + request.all("transfer-encoding").len();
            assert!(framings <= 1, "O2: one framing: {request:?}");
        }
        let control = self
            .browser()
            .send("GET", "/apps/pub/control", From::Program, "", b"")
            .await;
        assert_eq!(control.status(), 200, "O7: {control:?}");
    }

    /// O1: every request an app saw was allowed, and logged under the same id. O2: exactly one
    /// framing. O4: no secret of ours reached an app, the log or a metric. O7: the next good
    /// request works.
    pub async fn check_oracles(&self) {
        for backend in self.backends() {
            for request in backend.seen() {
                let ids = request.all("x-request-id");
                assert_eq!(ids.len(), 1, "O1: one id: {request:?}");
                let line = self.log.line_with(&ids[0]).await;
                assert_eq!(line["decision"], "allow", "O1: {line}");
                let lengths = request.all("content-length");
                let codings = request.all("transfer-encoding");
                assert!(
                    lengths.len() + codings.len() <= 1,
                    "O2: one framing: {request:?}"
                );
                assert!(
                    lengths
                        .iter()
                        .all(|l| l.parse::<u64>().is_ok_and(|n| n.to_string() == *l)),
                    "O2: {lengths:?}"
                );
                assert!(codings.iter().all(|c| c == "chunked"), "O2: {codings:?}");
            }
        }
        let control = self
            .browser()
            .send("GET", "/apps/pub/control", From::Program, "", b"")
            .await;
        assert_eq!(control.status(), 200, "O7: {control:?}");
        let id = control_id(self).await;
        self.log.line_with(&id).await;
        let metrics = self.admin("/metrics", "").await.text();
        let log = self.log.text();
        for canary in self.canaries.lock().expect("no panic").iter() {
            assert!(!log.contains(canary.as_str()), "O4: the log holds {canary}");
            assert!(
                !metrics.contains(canary.as_str()),
                "O4: the metrics hold {canary}"
            );
            for request in self.backends().flat_map(|backend| backend.seen()) {
                let raw = String::from_utf8_lossy(&request.raw).into_owned();
                assert!(
                    !raw.contains(canary.as_str()),
                    "O4: an app saw {canary}: {raw}"
                );
            }
        }
    }

    /// O5: how many requests the apps have seen, all together.
    pub fn reached(&self) -> usize {
        self.backends().map(|backend| backend.count()).sum()
    }
}

async fn control_id(world: &World) -> String {
    world
        .backend("pub")
        .last()
        .header("x-request-id")
        .expect("an id")
}
