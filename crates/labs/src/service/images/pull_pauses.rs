//! When an image that could not be pulled to a node is tried again.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::images::PrepullTask;

/// The pause after a first failure. It doubles with each further one.
const MIN_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1800);

/// The pauses, by node and digest.
#[derive(Debug, Default)]
pub(super) struct PullPauses(BTreeMap<(String, String), PullPause>);

#[derive(Debug)]
struct PullPause {
    length: Duration,
    until: Instant,
}

impl PullPauses {
    /// The image could not be pulled.
    pub(super) fn failed(&mut self, task: &PrepullTask) {
        let now = Instant::now();
        // Images come and go; an old failure says nothing.
        self.0.retain(|_, pause| now < pause.until + MAX_PAUSE);
        let pause = self.0.entry(key(task)).or_insert(PullPause {
            length: MIN_PAUSE / 2,
            until: now,
        });
        pause.length = (pause.length * 2).min(MAX_PAUSE);
        pause.until = now + pause.length;
    }

    /// The image was pulled.
    pub(super) fn succeeded(&mut self, task: &PrepullTask) {
        self.0.remove(&key(task));
    }

    /// Whether the image is to be tried now.
    pub(super) fn allows(&self, task: &PrepullTask) -> bool {
        let pause = self.0.get(&key(task));
        pause.is_none_or(|pause| pause.until <= Instant::now())
    }

    /// When the next pause ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        let ends = self.0.values().map(|pause| pause.until);
        ends.filter(|end| *end > now).min()
    }
}

fn key(task: &PrepullTask) -> (String, String) {
    (task.node.clone(), task.image.digest.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{images::LabImage, tag::ImageTag};

    fn task(node: &str) -> PrepullTask {
        PrepullTask {
            node: node.to_owned(),
            image: LabImage {
                tag: ImageTag::parse("w_2077_43"),
                registry: "registry.test".to_owned(),
                repository: "lab".to_owned(),
                digest: "sha256:12".to_owned(),
                size: None,
                aliases: BTreeSet::new(),
                alias_target: None,
                nodes: BTreeSet::new(),
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_a_bound_and_end_with_a_success() {
        let mut pauses = PullPauses::default();
        let (first, second) = (task("node1"), task("node2"));
        assert!(pauses.allows(&first));
        assert_eq!(pauses.next_end(), None);
        for seconds in [60, 120, 240, 480, 960, 1800, 1800] {
            pauses.failed(&first);
            let length = Duration::from_secs(seconds);
            assert_eq!(pauses.next_end(), Some(Instant::now() + length));
            assert!(!pauses.allows(&first) && pauses.allows(&second));
            tokio::time::advance(length).await;
            assert!(pauses.allows(&first));
        }
        pauses.succeeded(&first);
        pauses.failed(&first);
        assert_eq!(pauses.next_end(), Some(Instant::now() + MIN_PAUSE));
        tokio::time::advance(MIN_PAUSE + MAX_PAUSE).await;
        pauses.failed(&second);
        assert_eq!(pauses.0.len(), 1);
    }
}
