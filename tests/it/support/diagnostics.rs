//! The diagnostics of all gateways of this process, which write to standard error in production.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use tracing_subscriber::fmt::MakeWriter;

use super::until::until;

/// What is logged, readable.
#[derive(Clone, Default)]
pub struct Diagnostics(Arc<Mutex<Vec<u8>>>);

impl Diagnostics {
    /// Of the whole process.
    pub fn all() -> &'static Diagnostics {
        static ALL: OnceLock<Diagnostics> = OnceLock::new();
        ALL.get_or_init(|| {
            let diagnostics = Diagnostics::default();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(diagnostics.clone())
                .with_ansi(false)
                .finish();
            tracing::subscriber::set_global_default(subscriber)
                .expect("the only one of this process");
            diagnostics
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }

    /// The lines with all of these texts in them.
    pub fn lines_with(&self, wanted: &[&str]) -> Vec<String> {
        let text = self.text();
        let is_wanted = |line: &&str| wanted.iter().all(|wanted| line.contains(wanted));
        text.lines().filter(is_wanted).map(str::to_owned).collect()
    }

    /// Waits for a line with all of these texts in it.
    pub async fn until_line(&self, wanted: &[&str]) -> String {
        until("a line is logged", || !self.lines_with(wanted).is_empty()).await;
        self.lines_with(wanted).remove(0)
    }
}

impl io::Write for Diagnostics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Diagnostics {
    type Writer = Diagnostics;

    fn make_writer(&self) -> Diagnostics {
        self.clone()
    }
}
