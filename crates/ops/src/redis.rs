//! The connection to a Redis that replicas share: one, in RESP3, so that announcements arrive on it
//! too. It reconnects by itself. Every command has a deadline, and no command waits for a
//! connection.

use std::{path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use ludgate_model::secret::Secret;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisConnectionInfo, RedisError, ScriptInvocation, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::{Notify, mpsc},
    time::{self, Instant},
};
use tokio_rustls::TlsConnector;

use crate::{metrics::Registry, optional_gauge::OptionalGauge};

/// Deadline of one command, and of a connection attempt.
const DEADLINE: Duration = Duration::from_secs(1);
/// The key of the periodic test write, and its time to live in milliseconds.
const ALIVE: &str = "ludgate:alive";
const ALIVE_FOR: u64 = 60_000;
/// The interval of the test writes.
const TEST_INTERVAL: Duration = Duration::from_secs(1);
/// The first and the longest pause between connection attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Commands that may wait to be written.
const QUEUE_LENGTH: usize = 1024;

/// The address of Redis, and the credentials.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// The address.
    pub address: Address,
    /// ACL user; absent: the default one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Number of the database.
    pub database: i64,
}

/// The address of Redis.
#[derive(Clone)]
pub enum Address {
    /// Host and port, with TLS or without.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// The TLS client, with its trusted roots.
        tls: Option<Arc<ClientConfig>>,
    },
    /// Path of a socket.
    Unix(PathBuf),
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp { host, port, tls } => write!(f, "{host}:{port} tls={}", tls.is_some()),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection, no reply in time, or a refusal. A later attempt may succeed.
    #[error("the store that replicas share cannot be used now")]
    Unavailable,
    /// The key holds a value of another type.
    #[error("a key in the store that replicas share has an unexpected type")]
    WrongType,
}

/// What replicas share through a connection.
#[derive(Clone, Debug)]
pub struct LinkPurpose {
    /// The name of the store in log lines, such as `session store`.
    pub store: &'static str,
    /// What holds while the store is away, for log lines.
    pub while_away: &'static str,
    /// The channel of announcements between replicas.
    pub channel: String,
}

/// `result` of a command to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// The metrics of a store that replicas share. Clones share their values.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    up: OptionalGauge,
    commands: Family<ResultLabels, Counter>,
}

impl StoreMetrics {
    /// Registers the counter of commands by result and the gauge of the connection, each with its
    /// name and its help text.
    pub fn register(
        registry: &Registry,
        commands: (&'static str, &'static str),
        up: (&'static str, &'static str),
    ) -> StoreMetrics {
        let metrics = StoreMetrics::default();
        registry.register(commands.0, commands.1, metrics.commands.clone());
        registry.register(up.0, up.1, metrics.up.clone());
        metrics
    }

    /// Counts a command.
    pub fn count(&self, result: &'static str) {
        self.commands.get_or_create(&ResultLabels { result }).inc();
    }
}

/// The connection to Redis, if there is one.
pub struct Link {
    settings: RedisSettings,
    purpose: LinkPurpose,
    current: ArcSwapOption<OpenConnection>,
    metrics: StoreMetrics,
}

/// One connection.
struct OpenConnection {
    connection: MultiplexedConnection,
    /// A command found it broken.
    lost: Notify,
}

/// An event of the link.
pub enum LinkEvent {
    /// A new connection was made.
    Connected,
    /// A message arrived on the channel.
    Message(Vec<u8>),
}

impl Link {
    /// Not connected yet; [`Link::run`] connects.
    pub fn new(settings: RedisSettings, purpose: LinkPurpose, metrics: StoreMetrics) -> Link {
        metrics.up.set(0);
        Link {
            settings,
            purpose,
            current: ArcSwapOption::empty(),
            metrics,
        }
    }

    /// Runs one command.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let live = self.open_connection()?;
        let mut connection = live.connection.clone();
        self.run_command(&live, command.query_async(&mut connection))
            .await
    }

    /// Runs several commands in one round trip. They need not touch one slot of a cluster.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let live = self.open_connection()?;
        let mut connection = live.connection.clone();
        self.run_command(&live, commands.query_async(&mut connection))
            .await
    }

    /// Runs a script, and loads it first if the server does not have it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let live = self.open_connection()?;
        let mut connection = live.connection.clone();
        self.run_command(&live, script.invoke_async(&mut connection))
            .await
    }

    /// Publishes an announcement to the other replicas.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn publish(&self, text: &str) -> Result<(), StoreError> {
        let channel = &self.purpose.channel;
        self.command::<i64>(redis::cmd("PUBLISH").arg(channel).arg(text))
            .await
            .map(|_| ())
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        self.current.load().is_some()
    }

    fn open_connection(&self) -> Result<Arc<OpenConnection>, StoreError> {
        self.current.load_full().ok_or_else(|| {
            self.metrics.count("away");
            StoreError::Unavailable
        })
    }

    async fn run_command<T>(
        &self,
        live: &Arc<OpenConnection>,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        let store = self.purpose.store;
        match time::timeout(DEADLINE, answer).await {
            Ok(Ok(answer)) => {
                self.metrics.count("ok");
                Ok(answer)
            }
            Ok(Err(error)) if is_wrong_type(&error) => {
                self.metrics.count("foreign");
                tracing::warn!(%error, "a key in the {store} has an unexpected type");
                Err(StoreError::WrongType)
            }
            Ok(Err(error)) => {
                self.metrics.count("error");
                tracing::warn!(%error, "a command to the {store} failed");
                if error.is_io_error() || needs_reconnect(&error) {
                    self.drop_connection(live);
                }
                Err(StoreError::Unavailable)
            }
            Err(_) => {
                self.metrics.count("timeout");
                tracing::warn!("the {store} did not answer within 1 s");
                self.drop_connection(live);
                Err(StoreError::Unavailable)
            }
        }
    }

    /// Drops a connection that has failed, so that no other command waits on it.
    fn drop_connection(&self, live: &Arc<OpenConnection>) {
        // There may be a new one by now, which has not failed.
        self.current.rcu(|current| {
            current
                .clone()
                .filter(|current| !Arc::ptr_eq(current, live))
        });
        live.lost.notify_one();
    }

    /// Connects, and reconnects whenever the connection is lost. Never returns. `on_event` must not
    /// block.
    pub async fn run(&self, on_event: impl Fn(LinkEvent)) {
        let LinkPurpose {
            store, while_away, ..
        } = &self.purpose;
        let address = &self.settings.address;
        let mut pause = FIRST_PAUSE;
        let mut is_logged = false;
        loop {
            match time::timeout(DEADLINE, self.connect())
                .await
                .unwrap_or_else(|_| Err(timed_out()))
            {
                Ok((connection, pushes)) => {
                    tracing::info!(store = ?address, "connected to the {store}");
                    self.metrics.up.set(1);
                    is_logged = false;
                    let live = Arc::new(OpenConnection {
                        connection,
                        lost: Notify::new(),
                    });
                    let connected_at = Instant::now();
                    self.current.store(Some(live.clone()));
                    on_event(LinkEvent::Connected);
                    read_events(&live, pushes, &on_event).await;
                    self.current.store(None);
                    self.metrics.up.set(0);
                    tracing::warn!("lost the connection to the {store}; {while_away}");
                    // Connections that are lost at once must not be made in a tight loop.
                    if connected_at.elapsed() >= LONGEST_PAUSE {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(error) => {
                    if !is_logged {
                        tracing::warn!(
                            %error, store = ?address,
                            "cannot reach the {store}; {while_away}"
                        );
                        is_logged = true;
                    }
                }
            }
            time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn connect(
        &self,
    ) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), RedisError> {
        match &self.settings.address {
            Address::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                match tls {
                    None => self.handshake(stream).await,
                    Some(tls) => {
                        let name =
                            ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
                        self.handshake(
                            TlsConnector::from(tls.clone())
                                .connect(name, stream)
                                .await?,
                        )
                        .await
                    }
                }
            }
            Address::Unix(path) => self.handshake(UnixStream::connect(path).await?).await,
        }
    }

    async fn handshake<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
    ) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), RedisError> {
        let RedisSettings {
            user,
            password,
            database,
            address: _,
        } = &self.settings;
        let mut login = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(*database)
            .set_skip_set_lib_name();
        if let Some(user) = user {
            login = login.set_username(user);
        }
        if let Some(password) = password {
            login = login.set_password(password.expose());
        }
        let (push, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_push_sender(push)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE_LENGTH);
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(&login, stream, config).await?;
        tokio::spawn(driver);
        // A server that is still loading completes the handshake and fails all commands.
        test_write(&mut connection).await?;
        connection.subscribe(&self.purpose.channel).await?;
        Ok((connection, pushes))
    }
}

/// Reads pushed messages and tests the connection, until it is lost.
async fn read_events(
    live: &OpenConnection,
    mut pushes: mpsc::UnboundedReceiver<PushInfo>,
    on_event: &impl Fn(LinkEvent),
) {
    let mut connection = live.connection.clone();
    let mut test = time::interval(TEST_INTERVAL);
    loop {
        tokio::select! {
            push = pushes.recv() => match push {
                Some(PushInfo { kind: PushKind::Message, data }) => {
                    if let [_, Value::BulkString(text)] = data.as_slice() {
                        on_event(LinkEvent::Message(text.clone()));
                    }
                }
                Some(PushInfo { kind: PushKind::Disconnection, .. }) | None => return,
                Some(_) => {}
            },
            () = live.lost.notified() => return,
            _ = test.tick() => {
                if !matches!(time::timeout(DEADLINE, test_write(&mut connection)).await, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }
}

/// Writes a test key. A server that rejects writes is a replica of another one, and a record may be
/// absent although the primary has it.
async fn test_write(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    redis::cmd("SET")
        .arg(ALIVE)
        .arg(1)
        .arg("PX")
        .arg(ALIVE_FOR)
        .query_async(connection)
        .await
}

/// Whether a new connection may lead to a better server: this one rejects writes, or serves no
/// commands now.
fn needs_reconnect(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly};
    let kind = error.kind();
    // Errors inside a script have another kind.
    let in_a_script = error
        .detail()
        .is_some_and(|detail| detail.contains("READONLY"));
    in_a_script
        || [BusyLoading, ClusterDown, MasterDown, ReadOnly]
            .map(ErrorKind::Server)
            .contains(&kind)
}

/// Whether the key holds a value of another type. All other errors concern the server, not the
/// record.
fn is_wrong_type(error: &RedisError) -> bool {
    let kind = error.kind();
    kind == ErrorKind::UnexpectedReturnType
        || (kind == ErrorKind::Extension && error.code() == Some("WRONGTYPE"))
        || (kind == ErrorKind::Server(ServerErrorKind::ResponseError)
            && error.code() == Some("WRONGTYPE"))
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
